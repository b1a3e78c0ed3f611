// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process is called whose program is an interpreter or a virtual machine: by the script, module, class or archive
//! that it runs, as jps(1) calls those of Java. Read from its arguments; nothing of code that stands there.

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
    /// Where short options stand together, and a value may stand behind them (`-uc CODE`, `-mhttp.server`): those whose
    /// value is always the rest of the word.
    letters: Option<&'static str>,
}

const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "dotnet",
        valued: &[
            "--additional-deps",
            "--additionalprobingpath",
            "--depsfile",
            "--fx-version",
            "--roll-forward",
            "--runtimeconfig",
        ],
        runs: &[],
        code: &[],
        letters: None,
    },
    JAVA,
    NODE,
    Runtime { name: "nodejs", ..NODE },
    Runtime { name: "perl", valued: &["-I"], runs: &[], code: &["-E", "-e"], letters: Some("0CDFMVdilmx") },
    Runtime {
        name: "php",
        valued: &["-S", "-c", "-d", "-t", "-z"],
        runs: &["-f"],
        code: &["-B", "-E", "-R", "-r"],
        letters: Some(""),
    },
    PYTHON,
    Runtime { name: "pypy", ..PYTHON },
    Runtime {
        name: "ruby",
        valued: &["-C", "-E", "-I", "-r"],
        runs: &[],
        code: &["-e"],
        letters: Some("0FKTWix"),
    },
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
        "--patch-module",
        "--source",
        "--upgrade-module-path",
        "-classpath",
        "-cp",
        "-p",
    ],
    runs: &["--module", "-jar", "-m"],
    code: &[],
    letters: None,
};
const NODE: Runtime = Runtime {
    name: "node",
    valued: &[
        "--conditions",
        "--diagnostic-dir",
        "--disable-warning",
        "--dns-result-order",
        "--env-file",
        "--env-file-if-exists",
        "--experimental-loader",
        "--icu-data-dir",
        "--import",
        "--input-type",
        "--loader",
        "--openssl-config",
        "--redirect-warnings",
        "--report-directory",
        "--require",
        "--title",
        "--watch-path",
        "-C",
        "-r",
    ],
    runs: &[],
    code: &["--eval", "--print", "-e", "-p", "-pe"],
    letters: None,
};
const PYTHON: Runtime = Runtime {
    name: "python",
    valued: &["--check-hash-based-pycs", "-W", "-X"],
    runs: &["-m"],
    code: &["-c"],
    letters: Some(""),
};

/// Most characters of a script's name.
const MOST: usize = 48;
/// Bytes of a process's name, which ends after them.
const COMM: usize = 15;

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl Runtime {
    fn of(program: &str) -> Option<&'static Self> {
        let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        RUNTIMES.iter().find(|r| r.name == bare)
    }

    /// What it runs, of the words behind its name.
    fn script<'a>(&self, mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        while let Some(word) = words.next() {
            match word {
                // The script comes from its standard input.
                "-" => return None,
                word if self.code.contains(&word) => return None,
                word if self.runs.contains(&word) => return words.next(),
                word if self.valued.contains(&word) => _ = words.next(),
                word if word.starts_with("--") || word.starts_with('@') => {}
                "exec" if self.name == "dotnet" => {}
                word => match (word.strip_prefix('-'), self.letters) {
                    (None, _) => return Some(word),
                    (Some(_), None) => {}
                    (Some(options), Some(letters)) => {
                        for (i, letter) in options.char_indices() {
                            let option = format!("-{letter}");
                            let (has, rest) = (
                                |of: &[&str]| of.contains(&option.as_str()),
                                &options[i + letter.len_utf8()..],
                            );
                            if has(self.code) {
                                return None;
                            }
                            if has(self.runs) {
                                return if rest.is_empty() { words.next() } else { Some(rest) };
                            }
                            if has(self.valued) && rest.is_empty() {
                                words.next();
                            }
                            if has(self.valued) || letters.contains(letter) {
                                break;
                            }
                        }
                    }
                },
            }
        }
        None
    }
}

/// Whether a program is one that [`name`] knows.
pub fn is_interpreter(program: &str) -> bool {
    Runtime::of(base(program)).is_some()
}

/// The name of a process by what its interpreter runs, such as `python3 shop.py`; `arguments` with the program's own name
/// first. None where it runs no interpreter, or is called as its script already.
pub fn name<'a>(comm: &str, arguments: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut words = arguments.into_iter();
    let program = base(words.next()?);
    let runtime = Runtime::of(program)?;
    let mut script = base(runtime.script(words)?);
    if runtime.name == JAVA.name && !script.ends_with(".jar") && !script.ends_with(".java") {
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

    fn of(comm: &str, words: &str) -> Option<String> {
        name(comm, words.split(' '))
    }

    #[test]
    fn a_script_names_what_its_interpreter_runs() {
        for (words, called) in [
            ("python3 /srv/shop/app.py --port 80", Some("python3 app.py")),
            ("/usr/bin/python3.11 -u -W ignore -m http.server 8000", Some("python3.11 http.server")),
            ("python3 -mhttp.server 8000", Some("python3 http.server")),
            ("python3 -X dev -c import os; os.fork()", None),
            ("python3 -uc import os", None),
            ("python3 -Xdev -- app.py", Some("python3 app.py")),
            ("python3", None),
            ("python3 - TOKEN", None),
            (
                "java -Xmx4g -cp /opt/a.jar:/opt/b.jar -Dx=y org.apache.kafka.Kafka server.properties",
                Some("java Kafka"),
            ),
            ("/usr/lib/jvm/bin/java @/etc/java.options -jar /opt/shop/cart.jar", Some("java cart.jar")),
            ("java --module-path mods -m shop/com.shop.Main", Some("java Main")),
            ("java --source 21 Shop.java", Some("java Shop.java")),
            ("node --require ./trace.js --max-old-space-size=4096 dist/server.js", Some("node server.js")),
            ("node --env-file .env server.js", Some("node server.js")),
            ("node -e setInterval(f)", None),
            ("perl -w /usr/bin/backup.pl", Some("perl backup.pl")),
            ("perl -Mstrict -I lib backup.pl", Some("perl backup.pl")),
            ("perl -ne print", None),
            ("ruby -r bundler/setup -C /srv worker.rb", Some("ruby worker.rb")),
            ("php -d memory_limit=1G artisan queue:work", Some("php artisan")),
            ("dotnet exec --runtimeconfig a --depsfile b Shop.dll", Some("dotnet Shop.dll")),
            ("/usr/sbin/nginx -g daemon off;", None),
            ("postgres: writer", None),
            ("", None),
        ] {
            assert_eq!(of("any", words).as_deref(), called, "{words}");
        }
        let password = ["java", "-Ddb.password=my s3cret", "-jar", "app.jar"];
        assert_eq!(name("java", password).as_deref(), Some("java app.jar"), "words are not parted again");
    }

    #[test]
    fn what_is_called_as_its_script_has_its_name() {
        assert_eq!(of("networkd-dispat", "/usr/bin/python3 /usr/bin/networkd-dispatcher --startup"), None);
        assert_eq!(of("python3", "python3 a\u{1b}b.py"), None, "no name for a terminal");
        let long = "x".repeat(100);
        assert_eq!(of("node", &format!("node {long}")).map(|n| n.len()), Some("node ".len() + MOST));
    }
}
