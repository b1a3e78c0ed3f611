// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a watch kept of each window: the lines of windows/DATE.jsonl (`schemas/watch.json`).

use super::workloads::{list, real, text, whole};
use super::{table, Context, Sink};
use plumb_trace::reader::State;
use serde_json::Value;

table!(WINDOWS, Windows, Windows, "windows", "What `plumb watch` kept, a window a row",
window(w: &Value, c) {
    at: Text = text(w, "at"), "Its begin, UTC, as in 2026-11-28T13:01:53Z";
    seconds: Real = real(w, "seconds"), "Its length, s";
    bottleneck: Text = text(w, "bottleneck"), "What limited the busiest service";
    busy_cpus: Real = w["cpus"][0].as_f64(), "CPUs that were busy, on average";
    cpus: Real = w["cpus"][1].as_f64(), "CPUs";
    events: Real = real(w, "events"), "Events a second";
    paused: Real = real(w, "paused"), "Share of the window that was not recorded, 0 to 1";
    lost: Integer = whole(w, "lost"), "Events that were lost";
});

table!(WINDOW_SERVICES, WindowServices, Windows, "window_services", "Services in the windows of `plumb watch`",
service(r: (&str, &Value), c) {
    at: Text = r.0, "Begin of the window, as in windows";
    service: Text = text(r.1, "name"), "Unit, container, pod or program";
    processes: Integer = whole(r.1, "processes"), "Its processes";
    cpu: Real = threads(r.1, 0), "Threads on a CPU, on average";
    runq: Real = threads(r.1, 1), "Threads that waited for a CPU";
    lock: Real = threads(r.1, 2), "Threads that waited for a lock";
    disk: Real = threads(r.1, 3), "Threads that waited for block I/O";
    net: Real = threads(r.1, 4), "Threads that waited for the network";
    other: Real = threads(r.1, 5), "Threads that waited for something else, but idle ones";
    requests: Real = real(r.1, "requests"), "Requests a second that it answered";
    mean_ns: Integer = whole(r.1, "mean"), "Their mean time; 0 without requests";
    longest_ns: Integer = whole(r.1, "longest"), "The longest";
    limited_by: Text = text(r.1, "limit").filter(|l| !l.is_empty()), "Its largest finding";
});

table!(WINDOW_DEVICES, WindowDevices, Windows, "window_devices", "The busiest block devices in the windows of `plumb watch`",
device(r: (&str, &Value), c) {
    at: Text = r.0, "Begin of the window, as in windows";
    device: Text = text(r.1, "name"), "Its name";
    requests: Real = real(r.1, "requests"), "Requests a second";
    bytes_per_second: Real = real(r.1, "bytes"), "Bytes a second";
    in_flight: Real = real(r.1, "in_flight"), "Requests in flight, on average";
    busy: Real = real(r.1, "busy"), "Share of the time in which it had a request, 0 to 1";
    before_ns: Real = real(r.1, "before"), "Mean time of a request before the device had it";
    service_ns: Real = real(r.1, "service"), "Mean device service time";
});

fn threads(service: &Value, part: usize) -> Option<f64> {
    service["threads"][part].as_f64()
}

/// Hands the windows of a file to a sink; a line that is none, as one that is being written, is passed over.
pub fn windows<S: Sink + ?Sized>(run: &str, lines: &str, sink: &mut S) {
    let context = Context::new(run, 0, &State::default());
    for line in lines.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let Some(at) = text(&value, "at") else { continue };
        window(sink, &context, &value);
        list(&value, "services").for_each(|s| service(sink, &context, (at, s)));
        list(&value, "devices").for_each(|d| device(sink, &context, (at, d)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Table};

    #[derive(Default)]
    struct Rows(Vec<String>);

    impl Sink for Rows {
        fn wants(&self, _: &'static Table) -> bool {
            true
        }

        fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
            let cells = cells.iter().map(|c| match c {
                Cell::None => "-".into(),
                Cell::Integer(n) => n.to_string(),
                Cell::Real(n) => n.to_string(),
                Cell::Text(t) => (*t).to_string(),
            });
            self.0.push(format!("{}: {}", table.name, cells.collect::<Vec<_>>().join(" ")));
        }
    }

    #[test]
    fn lines_are_rows() {
        let lines = "{\"format\":\"plumb.watch\",\"version\":1}\n\
            {\"at\":\"T\",\"seconds\":60.0,\"events\":9.5,\"paused\":0.0,\"lost\":0,\"cpus\":[0.5,2.0],\"bottleneck\":\"b\",\
            \"services\":[{\"name\":\"db\",\"processes\":3,\"threads\":[1.0,2.0,3.0,4.0,5.0,6.0],\"requests\":7.0,\"mean\":8,\
            \"longest\":9,\"limit\":\"\"}],\"devices\":[{\"name\":\"sda\",\"busy\":0.5}],\"locks\":[]}\n{\"at\":\"cut o";
        let mut rows = Rows::default();
        windows("w", lines, &mut rows);
        assert_eq!(
            rows.0,
            [
                "windows: w T 60 b 0.5 2 9.5 0 0",
                "window_services: w T db 3 1 2 3 4 5 6 7 8 9 -",
                "window_devices: w T sda - - - 0.5 - -"
            ]
        );
    }
}
