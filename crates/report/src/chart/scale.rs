// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scale of colours for figures: darker is more, also in grey, and black text can be read on all of it.

/// From the least to the most (the light part of ColorBrewer's YlGnBu, the last one a little lighter).
const ANCHORS: [[u8; 3]; 5] =
    [[0xff, 0xff, 0xd9], [0xc7, 0xe9, 0xb4], [0x7f, 0xcd, 0xbb], [0x41, 0xb6, 0xc4], [0x26, 0x99, 0xc6]];

/// The colour of a place, 0 to 1.
pub fn rgb(place: f64) -> [u8; 3] {
    let along = place.clamp(0.0, 1.0) * (ANCHORS.len() - 1) as f64;
    let from = (along as usize).min(ANCHORS.len() - 2);
    let part = along - from as f64;
    let mixed = |i: usize| {
        let (a, b) = (f64::from(ANCHORS[from][i]), f64::from(ANCHORS[from + 1][i]));
        (a + (b - a) * part).round() as u8
    };
    [mixed(0), mixed(1), mixed(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2).
    fn luminance(rgb: [u8; 3]) -> f64 {
        let [r, g, b] = rgb.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// CIELAB lightness.
    fn lightness(rgb: [u8; 3]) -> f64 {
        116.0 * luminance(rgb).cbrt() - 16.0
    }

    #[test]
    fn more_is_darker_in_nearly_even_steps_and_text_can_be_read() {
        let all: Vec<[u8; 3]> = (0..=20).map(|i| rgb(f64::from(i) / 20.0)).collect();
        let steps: Vec<f64> = all.windows(2).map(|two| lightness(two[0]) - lightness(two[1])).collect();
        let (least, most) = steps.iter().fold((f64::INFINITY, 0.0f64), |(l, m), s| (l.min(*s), m.max(*s)));
        assert!(least > 0.8 && most < 4.0, "{steps:?}");
        let ink = luminance([0x22, 0x22, 0x22]) + 0.05;
        for colour in all {
            let contrast = (luminance(colour) + 0.05) / ink;
            assert!(contrast >= 4.5, "{colour:?}: {contrast}");
        }
        assert_eq!((rgb(-1.0), rgb(2.0)), (ANCHORS[0], ANCHORS[4]));
    }
}
