// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb mcp`, asked by the protocol's own client. Needs no root.

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{json, Value};
use std::path::Path;

type Client = RunningService<RoleClient, ()>;

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/traces");

async fn start(dir: &Path) -> Client {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("mcp").arg(dir);
    ().serve(TokioChildProcess::new(command).expect("plumb mcp")).await.expect("it answers")
}

async fn call(client: &Client, tool: &str, given: Value) -> CallToolResult {
    let given = given.as_object().cloned().unwrap_or_default();
    client.call_tool(CallToolRequestParams::new(tool.to_string()).with_arguments(given)).await.expect(tool)
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|c| c.as_text()).map(|t| t.text.clone()).collect()
}

async fn answer(client: &Client, tool: &str, given: Value) -> String {
    let result = call(client, tool, given).await;
    assert_ne!(result.is_error, Some(true), "{tool}: {}", text(&result));
    text(&result)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn with_client(test: impl AsyncFnOnce(&Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
    runtime.block_on(async {
        let client = start(Path::new(TRACES)).await;
        test(&client).await;
        client.cancel().await.expect("it ends");
    });
}

/// All that is known at first is that there are tools.
#[test]
fn what_limits_a_run_is_answered_from_the_tools_alone() {
    with_client(async |client| {
        let tools = client.list_all_tools().await.expect("tools");
        let names: Vec<&str> = tools.iter().map(|t| t.name.as_ref()).collect();
        assert!(["list_runs", "verdict", "findings", "account", "query", "compare"]
            .iter()
            .all(|n| names.contains(n)));
        for tool in &tools {
            let hints = tool.annotations.as_ref().expect("hints");
            assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        }

        let runs = json(&answer(client, "list_runs", json!({})).await);
        let runs: Vec<&str> = runs["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .map(|r| r["run"].as_str().expect("a name"))
            .collect();
        assert!(runs.contains(&"mutex") && runs.contains(&"cpu-quota"), "{runs:?}");

        let verdict = json(&answer(client, "verdict", json!({ "run": "mutex" })).await);
        let said = verdict["verdict"][0].as_str().expect("a line");
        assert!(said.contains("mutex"), "{said}");
        assert_eq!(verdict["valid"], true);

        // The command says the same.
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_plumb"))
            .args(["explain", "--json", &format!("{TRACES}/mutex")])
            .output()
            .expect("plumb explain");
        let explained = json(&String::from_utf8_lossy(&out.stdout));
        assert_eq!(explained["verdict"], verdict["verdict"]);

        let findings = json(&answer(client, "findings", json!({ "run": "mutex", "top": "1" })).await);
        assert_eq!(findings["findings"].as_array().map(Vec::len), Some(1));
        assert_eq!(findings["findings"][0]["id"], verdict["findings"][0]["id"]);
        assert!(!findings["findings"][0]["evidence"].as_array().expect("evidence").is_empty());

        let account = json(&answer(client, "account", json!({ "run": "mutex", "top": "3" })).await);
        let whole: u64 =
            account["account_ns"].as_object().expect("ns").values().filter_map(Value::as_u64).sum();
        let threads: u64 = explained["processes"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|p| p["thread_time"].as_u64())
            .sum();
        assert_eq!(whole, threads, "the account adds up");
    });
}

#[test]
fn sql_and_comparison_are_answered() {
    with_client(async |client| {
        assert!(answer(client, "tables", json!({})).await.contains("processes"));
        let sql = "select count(*) as n from processes";
        let rows = answer(client, "query", json!({ "run": "mutex", "sql": sql })).await;
        let n: u64 =
            rows.strip_prefix("n\n").and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{rows}"));
        assert!(n > 0);
        let many = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000000) select x from c";
        let rows = answer(client, "query", json!({ "run": "mutex", "sql": many })).await;
        assert!(rows.len() < 40_000 && rows.contains("left out"), "{}", rows.len());
        let same = answer(client, "compare", json!({ "before": "sleep", "after": "sleep" })).await;
        assert!(!same.is_empty());
    });
}

#[test]
fn what_cannot_be_answered_is_said_and_the_next_question_is() {
    with_client(async |client| {
        for (tool, given, word) in [
            ("verdict", json!({ "run": "../../../etc" }), "list_runs"),
            ("verdict", json!({ "run": "none" }), "list_runs"),
            ("verdict", json!({}), "needs the argument run"),
            ("query", json!({ "run": "mutex", "sql": "delete from processes" }), ""),
            ("query", json!({ "run": "mutex", "sql": "attach '/tmp/x' as x" }), ""),
            ("query", json!({ "run": "mutex", "sql": "select nothing from processes" }), "nothing"),
        ] {
            let result = call(client, tool, given.clone()).await;
            assert_eq!(result.is_error, Some(true), "{tool} {given}: {}", text(&result));
            assert!(text(&result).contains(word), "{tool} {given}: {}", text(&result));
        }
        let none = client.call_tool(CallToolRequestParams::new("format_disk")).await;
        assert!(none.is_err());
        assert!(answer(client, "verdict", json!({ "run": "sleep" })).await.contains("verdict"));
    });
}

#[test]
fn who_starts_it_by_hand_is_told() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_plumb"))
        .args(["mcp", TRACES])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("plumb mcp");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("started by one"),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_plumb"))
        .args(["mcp", "/no/such/dir"])
        .output()
        .expect("plumb");
    assert_eq!(out.status.code(), Some(2));
}
