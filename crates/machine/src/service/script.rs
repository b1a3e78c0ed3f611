// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process is called whose program is an interpreter or a virtual machine: by the script, module, class or archive
//! that it runs, as jps(1) calls those of Java. Read from its command line; nothing of the code that stands there.

/// A program that runs others, by the options before what it runs.
struct Runtime {
    /// Its name without a version: `python` of `python3.11`.
    name: &'static str,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Options whose value is what it runs.
    runs: &'static [&'static str],
    /// Options that hold the code itself, which has no name.
    code: &'static [&'static str],
}

const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "dotnet",
        valued: &["--additionalprobingpath", "--depsfile", "--fx-version"],
        runs: &["exec"],
        code: &[],
    },
    JAVA,
    NODE,
    Runtime { name: "nodejs", ..NODE },
    Runtime { name: "perl", valued: &["-I"], runs: &[], code: &["-E", "-e"] },
    Runtime { name: "php", valued: &["-S", "-c", "-d", "-t", "-z"], runs: &["-f"], code: &["-r"] },
    PYTHON,
    Runtime { name: "pypy", ..PYTHON },
    Runtime { name: "ruby", valued: &["-I", "-r"], runs: &[], code: &["-e"] },
];
const JAVA: Runtime = Runtime {
    name: "java",
    valued: &[
        "--add-exports",
        "--add-modules",
        "--add-opens",
        "--add-reads",
        "--class-path",
        "--limit-modules",
        "--module-path",
        "--upgrade-module-path",
        "-classpath",
        "-cp",
        "-p",
    ],
    runs: &["--module", "-jar", "-m"],
    code: &[],
};
const NODE: Runtime = Runtime {
    name: "node",
    valued: &["--conditions", "--experimental-loader", "--import", "--loader", "--require", "-C", "-r"],
    runs: &[],
    code: &["--eval", "--print", "-e", "-p"],
};
const PYTHON: Runtime = Runtime {
    name: "python",
    valued: &["--check-hash-based-pycs", "-W", "-X"],
    runs: &["-m"],
    code: &["-c"],
};

/// Most bytes of a script's name.
const MOST: usize = 48;
/// Bytes of a process's name, which ends after them.
const COMM: usize = 15;

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The name of a process by what its interpreter runs, such as `python3 shop.py`; none where it runs no interpreter, or
/// is called as its script already.
pub fn name(comm: &str, cmdline: &str) -> Option<String> {
    let mut words = cmdline.split(' ').filter(|w| !w.is_empty());
    let program = base(words.next()?);
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let runtime = RUNTIMES.iter().find(|r| r.name == bare)?;
    let mut runs = None;
    while let Some(word) = words.next() {
        if runtime.code.contains(&word) {
            return None;
        }
        if runtime.runs.contains(&word) {
            runs = words.next();
            break;
        }
        if runtime.valued.contains(&word) {
            words.next();
        } else if !word.starts_with(['-', '@']) {
            runs = Some(word);
            break;
        }
    }
    let mut script = base(runs?);
    if runtime.name == JAVA.name && !script.ends_with(".jar") {
        // A class, without its packages.
        script = script.rsplit('.').next().unwrap_or_default();
    }
    let fits = !script.is_empty() && !script.chars().any(char::is_control);
    let called = |script: &str| script.bytes().take(COMM).eq(comm.bytes());
    (fits && !called(script)).then(|| format!("{program} {}", script.chars().take(MOST).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_what_its_interpreter_runs() {
        for (cmdline, called) in [
            ("python3 /srv/shop/app.py --port 80", Some("python3 app.py")),
            ("/usr/bin/python3.11 -u -W ignore -m http.server 8000", Some("python3.11 http.server")),
            ("python3 -X dev -c import os; os.fork()", None),
            ("python3", None),
            ("python3 -", None),
            (
                "java -Xmx4g -cp /opt/a.jar:/opt/b.jar -Dx=y org.apache.kafka.Kafka server.properties",
                Some("java Kafka"),
            ),
            ("/usr/lib/jvm/bin/java @/etc/java.options -jar /opt/shop/cart.jar", Some("java cart.jar")),
            ("java --module-path mods -m shop/com.shop.Main", Some("java Main")),
            ("node --require ./trace.js --max-old-space-size=4096 dist/server.js", Some("node server.js")),
            ("node -e setInterval(f)", None),
            ("perl -w /usr/bin/backup.pl", Some("perl backup.pl")),
            ("ruby -r bundler/setup worker.rb", Some("ruby worker.rb")),
            ("php -d memory_limit=1G artisan queue:work", Some("php artisan")),
            ("dotnet exec Shop.dll", Some("dotnet Shop.dll")),
            ("/usr/sbin/nginx -g daemon off;", None),
            ("postgres: writer", None),
            ("", None),
        ] {
            assert_eq!(name("any", cmdline).as_deref(), called, "{cmdline}");
        }
    }

    #[test]
    fn what_is_called_as_its_script_has_its_name() {
        assert_eq!(name("networkd-dispat", "/usr/bin/python3 /usr/bin/networkd-dispatcher --startup"), None);
        assert_eq!(name("python3", "python3 a\u{1b}b.py"), None, "no name for a terminal");
        let long = "x".repeat(100);
        assert_eq!(name("node", &format!("node {long}")).map(|n| n.len()), Some("node ".len() + MOST));
    }
}
