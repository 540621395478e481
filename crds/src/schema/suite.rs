//! JSON Schema of YAML suite files for editors.
//!
//! The crate `argus-suite` reads these files without types, because the types of many values are known only after the
//! resolution of variables. Its tests compare the keys of this schema with those that it reads.

use serde_json::{Value, json};

/// Returns the schema of YAML suite files.
pub fn suite_schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://argus.dev/schemas/suite.schema.json",
        "title": "YAML test suite",
        "description": "Suite of the runner `yaml`, named by `tests.suites[].file` of an e2e.yaml.",
        "type": "object",
        "required": ["name", "cases"],
        "additionalProperties": false,
        "patternProperties": { "^x-": {} },
        "properties": {
            "$schema": { "type": "string", "description": "Address of this schema, for editors." },
            "name": { "type": "string", "minLength": 1, "description": "Name of the suite for people." },
            "description": { "type": "string", "description": "Purpose of the suite for people." },
            "sequential": {
                "type": "boolean",
                "description": "True to skip all cases after a failed one. Cases always run one after the other."
            },
            "variables": {
                "type": "object",
                "description": "Values of `{{NAME}}`, resolved in their order at the start.",
                "additionalProperties": { "type": ["string", "number", "boolean"] }
            },
            "setup": {
                "type": ["array", "null"],
                "description": "Steps and waits before the cases. A failure has no effect on the result.",
                "items": { "anyOf": [{ "$ref": "#/definitions/wait" }, { "$ref": "#/definitions/step" }] }
            },
            "cases": {
                "type": "array",
                "description": "Test cases in their order.",
                "items": { "$ref": "#/definitions/step" }
            },
            "teardown": {
                "type": ["array", "null"],
                "description": "Steps after the cases. A failure has no effect on the result.",
                "items": { "$ref": "#/definitions/step" }
            }
        },
        "definitions": definitions()
    })
}

#[allow(clippy::too_many_lines, reason = "the schema is one document")]
fn definitions() -> Value {
    let texts = |description: &str| {
        json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            "description": description
        })
    };
    let contains = texts("Text that must occur, or a list of such texts.");
    let not_contains = texts("Text that must not occur, or a list of such texts.");
    let matches = json!({ "type": "string", "description": "Regular expression that must match somewhere in the text." });
    let container = json!({
        "type": "string",
        "description": "Container or service of the file, or a container of the engine. Default: the first service."
    });
    let comparison = json!({
        "type": "string",
        "pattern": "^([><!=]=?|==)[0-9]+$",
        "description": "Comparison such as `>=1`."
    });
    let fields = json!({
        "type": ["object", "array"],
        "description": "Expected fields. A value is exact, a map of fields, or a map of operators."
    });
    json!({
        "time": {
            "type": ["string", "number"],
            "pattern": "^\\s*([0-9]+|[0-9]+(\\.[0-9]+)?\\s*(ms|s|m|h))\\s*$|\\{\\{|^$",
            "description": "Time such as `500ms`, `5s`, `2m` or `1h`."
        },
        "wait": {
            "type": "object",
            "anyOf": [{ "required": ["waitHealthy"] }, { "required": ["waitForPort"] }, { "required": ["delay"] }],
            "properties": {
                "waitHealthy": {
                    "type": ["object", "null"],
                    "description": "Wait until the environment is ready, by default for `60s`.",
                    "additionalProperties": false,
                    "properties": { "timeout": { "$ref": "#/definitions/time" } }
                },
                "waitForPort": {
                    "type": "object",
                    "description": "Wait until a port accepts connections, by default for `60s`.",
                    "additionalProperties": false,
                    "required": ["port"],
                    "properties": {
                        "host": { "type": "string", "description": "Host to connect to. Default: `localhost`." },
                        "port": { "type": ["integer", "string"], "description": "Number of the port." },
                        "timeout": { "$ref": "#/definitions/time" }
                    }
                },
                "delay": { "$ref": "#/definitions/time" }
            }
        },
        "step": {
            "type": "object",
            "properties": {
                "name": { "type": ["string", "number"], "description": "Name of the step in reports." },
                "description": { "type": "string", "description": "Purpose of the step for people." },
                "delay": { "$ref": "#/definitions/time", "description": "Pause before each attempt of a case." },
                "ignoreError": { "type": "boolean", "description": "True to pass even if the step fails." },
                "retry": { "$ref": "#/definitions/retry" },
                "save": {
                    "type": "object",
                    "description": "Variables from the body of the response: name and path, such as `items.0.id`.",
                    "additionalProperties": { "type": ["string", "number"] }
                },
                "request": { "$ref": "#/definitions/request" },
                "exec": { "$ref": "#/definitions/exec" },
                "file": { "$ref": "#/definitions/file" },
                "process": { "$ref": "#/definitions/process" },
                "port": { "$ref": "#/definitions/port" },
                "expect": { "$ref": "#/definitions/expect" }
            }
        },
        "retry": {
            "type": "object",
            "description": "Attempts of a case; replaces `retry` of the suite in `e2e.yaml`.",
            "additionalProperties": false,
            "properties": {
                "maxAttempts": { "type": "integer", "minimum": 1, "description": "Maximum number of attempts. Default: 1." },
                "delay": { "$ref": "#/definitions/time" },
                "backoff": {
                    "enum": ["linear", "exponential"],
                    "description": "Growth of the pauses between attempts. Default: all pauses are equal."
                },
                "backoffMultiplier": { "type": "number", "description": "Factor of this growth. Default: 2." }
            }
        },
        "request": {
            "type": "object",
            "description": "HTTP request. Redirects are followed.",
            "additionalProperties": false,
            "anyOf": [{ "required": ["url"] }, { "required": ["path"] }],
            "properties": {
                "method": { "type": "string", "description": "Method. Default: `GET`." },
                "url": { "type": "string", "description": "Address. A local host port is replaced by the actual one." },
                "path": { "type": "string", "description": "Path below the base URL of the service." },
                "headers": {
                    "type": "object",
                    "description": "Headers of the request, by name.",
                    "additionalProperties": { "type": ["string", "number", "boolean"] }
                },
                "body": { "description": "Body, sent as JSON." },
                "timeout": { "$ref": "#/definitions/time", "description": "Maximum time. Default: `30s`." }
            }
        },
        "exec": {
            "type": "object",
            "description": "Command in a container, by `sh -c`, for at most 15 s.",
            "additionalProperties": false,
            "required": ["command"],
            "properties": {
                "command": { "type": "string", "description": "Script for the shell of the container." },
                "container": container
            }
        },
        "file": {
            "type": "object",
            "description": "Assertions on a file in a container.",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": { "type": "string", "description": "Path of the file in the container." },
                "container": container,
                "exists": { "type": "boolean", "description": "True if the file must exist, false if it must not." },
                "permissions": { "type": "string", "description": "Permissions such as `-rw-r--r--`." },
                "owner": { "type": "string", "description": "Name of the user that owns the file." },
                "size": comparison,
                "contains": contains,
                "notContains": not_contains,
                "matches": matches,
                "json": fields
            }
        },
        "process": {
            "type": "object",
            "description": "Assertions on the lines of `ps` in a container that contain a name.",
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "description": "Text that the lines of the process contain." },
                "container": container,
                "running": { "type": "boolean", "description": "True if a line must exist, false if none must exist." },
                "count": comparison,
                "user": { "type": "string", "description": "User in the first column of at least one line." }
            }
        },
        "port": {
            "type": "object",
            "description": "Assertion on a port of a container.",
            "additionalProperties": false,
            "required": ["port"],
            "properties": {
                "port": { "type": ["integer", "string"], "description": "Number of the port." },
                "host": { "type": "string", "description": "Host to connect to, for files without services." },
                "container": container,
                "listening": { "type": "boolean", "description": "Expected state. Default: `true`." },
                "timeout": { "$ref": "#/definitions/time" }
            }
        },
        "expect": {
            "type": ["object", "null"],
            "description": "Conditions of a request or a command. All must hold.",
            "additionalProperties": false,
            "properties": {
                "status": {
                    "anyOf": [{ "type": "number" }, { "type": "array", "items": { "type": "number" } }],
                    "description": "Status code, or a list of them."
                },
                "headers": { "type": "object", "description": "Expected headers, by name." },
                "body": fields,
                "responseTime": {
                    "type": ["number", "object"],
                    "description": "Maximum time until the headers arrive, in milliseconds, or a map of comparisons."
                },
                "expr": texts("Comparison such as `body.total > 3`, or a list of them."),
                "all": {
                    "type": "array",
                    "description": "Maps of expected fields of the body. Each map must hold.",
                    "items": { "type": "object" }
                },
                "any": {
                    "type": "array",
                    "description": "Maps of expected fields of the body. At least one map must hold.",
                    "items": { "type": "object" }
                },
                "exitCode": { "type": "number", "description": "Exit code of the command. Default: not checked." },
                "output": {
                    "type": "object",
                    "description": "Output of the command.",
                    "additionalProperties": false,
                    "properties": {
                        "contains": contains,
                        "notContains": not_contains,
                        "matches": matches,
                        "json": fields,
                        "length": { "type": ["string", "number", "object"], "description": "Number of lines." }
                    }
                }
            }
        }
    })
}
