// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The call tree of folded stacks, and which of its frames are worth drawing.

use super::labels::Line;

/// A frame with the same frames outside of it.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Place in the table of labels.
    pub label: u32,
    /// Place of the next outer one.
    pub parent: Option<u32>,
    /// Values of stacks that end here, the first profile's and the second's.
    pub own: [u64; 2],
    /// Values of stacks that pass here.
    pub total: [u64; 2],
}

/// A tree in depth-first order: a parent before its children.
#[derive(Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Stacks whose innermost frames are missing.
    pub stacks: usize,
    /// The value of these frames.
    pub value: u64,
}

impl Tree {
    /// Of lines that are sorted by their paths; `values` has one pair a line.
    pub fn new(lines: &[Line], values: impl Fn(usize) -> [u64; 2]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        // The path of the line before: its labels and nodes.
        let mut open: Vec<(u32, u32)> = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            let shared = open.iter().zip(&line.path).take_while(|((label, _), l)| label == *l).count();
            open.truncate(shared);
            for label in &line.path[shared..] {
                let parent = open.last().map(|(_, node)| *node);
                open.push((*label, nodes.len() as u32));
                nodes.push(Node { label: *label, parent, ..Node::default() });
            }
            if let Some((_, last)) = open.last() {
                nodes[*last as usize].own = values(i);
            }
        }
        for i in (0..nodes.len()).rev() {
            for side in 0..2 {
                nodes[i].total[side] += nodes[i].own[side];
                if let Some(parent) = nodes[i].parent {
                    nodes[parent as usize].total[side] += nodes[i].total[side];
                }
            }
        }
        Self { nodes }
    }

    /// Which frames to draw: the widest ones on `side`, none narrower than `least`, and no more than
    /// the `room` that they take together by `cost`. Whoever is drawn has his parent drawn.
    pub fn widest(
        &self,
        side: usize,
        least: u64,
        room: usize,
        cost: impl Fn(&Node) -> usize,
    ) -> (Vec<bool>, Left) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        // A parent is as wide as its children at least, and stands before them.
        order.sort_by_key(|i| (std::cmp::Reverse(self.nodes[*i].total[side]), *i));
        let mut drawn = vec![false; self.nodes.len()];
        let mut taken = 0;
        for i in order {
            let node = &self.nodes[i];
            taken += cost(node);
            if node.total[side] < least.max(1) || taken > room {
                break;
            }
            drawn[i] = true;
        }
        let mut left = Left::default();
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| !drawn[*i]) {
            left.stacks += usize::from(self.nodes[i].own[side] > 0);
            if node.parent.is_none_or(|p| drawn[p as usize]) {
                left.value += node.total[side];
            }
        }
        (drawn, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let line = |path: &[u32]| Line { path: path.to_vec(), time: [0, 0] };
        let lines = [line(&[0]), line(&[0, 1]), line(&[0, 1, 2]), line(&[0, 3])];
        Tree::new(&lines, |i| [1, [5, 0, 30, 10][i]])
    }

    #[test]
    fn totals() {
        let totals: Vec<_> = tree().nodes.iter().map(|n| (n.label, n.own[1], n.total)).collect();
        assert_eq!(totals, [(0, 5, [4, 45]), (1, 0, [2, 30]), (2, 30, [1, 30]), (3, 10, [1, 10])]);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let tree = tree();
        let (drawn, left) = tree.widest(1, 0, usize::MAX, |_| 1);
        assert_eq!((drawn, left), (vec![true; 4], Left::default()));
        let (drawn, left) = tree.widest(1, 11, usize::MAX, |_| 1);
        assert_eq!((drawn, left), (vec![true, true, true, false], Left { stacks: 1, value: 10 }));
        let (drawn, left) = tree.widest(1, 0, 2, |_| 1);
        assert_eq!((drawn, left), (vec![true, true, false, false], Left { stacks: 2, value: 40 }));
    }
}
