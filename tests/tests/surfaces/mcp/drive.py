"""Drives the MCP server of Argus with the official Python client, by scripts of steps.

    drive.py                 reads one script from stdin
    drive.py --serve SOCKET  serves {"env": {...}, "script": SCRIPT} at a socket until stdin ends: the imports cost more than most scripts

{"stdio": [PROGRAM, ARGUMENT...]} or {"http": URL, "token": TOKEN, "socket": PATH}, "mode": "auto" or "legacy", and "steps":
{"tools": true} | {"call": NAME, "arguments": {...}, "progress": bool, "cancel": WHEN, "mark": FILE} | {"resources": true} | {"read": URI}
The client cancels a call after its first progress message if WHEN is "progress", else when the file WHEN exists. It creates the file FILE
at each progress message.

Prints a list with one response per step. The response of a tool is validated against its published schema, and the schemas with "tools".
"""

import json
import os
import select
import shutil
import signal
import socket
import sys

import anyio
import httpx2
import jsonschema
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


LIMIT = 600


async def cancel_when_exists(path, scope):
    while not os.path.exists(path):
        await anyio.sleep(0.05)
    scope.cancel()


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def call(client, schemas, step):
    received = []
    scope = anyio.CancelScope()
    cancel = step.get("cancel")

    async def on_progress(progress, total, message):
        received.append({"progress": progress, "total": total, "message": message})
        if "mark" in step:
            open(step["mark"], "w").close()
        if cancel == "progress":
            scope.cancel()

    arguments = step.get("arguments", {})
    listener = on_progress if step.get("progress") else None

    async def request():
        with scope:
            return plain(await client.call_tool(step["call"], arguments, progress_callback=listener))

    with anyio.fail_after(LIMIT):
        if cancel in (None, "progress"):
            result = await request()
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_when_exists, cancel, scope)
                result = await request()
                tasks.cancel_scope.cancel()
    if scope.cancelled_caught:
        return {"cancelled": True, "progress": received}
    # Other clients validate errors against the schema as well.
    jsonschema.Draft202012Validator(schemas[step["call"]]).validate(result["structuredContent"])
    return {"result": result, "progress": received}


async def answer(client, schemas, step):
    try:
        if "call" in step:
            return await call(client, schemas, step)
        if "read" in step:
            return plain(await client.read_resource(step["read"]))
        if "resources" in step:
            found = plain(await client.list_resources())
            found["templates"] = plain(await client.list_resource_templates())
            return found
        tools = (await client.list_tools()).tools
        for tool in tools:
            for schema in (tool.input_schema, tool.output_schema):
                jsonschema.Draft202012Validator.check_schema(schema)
        return {"tools": [plain(tool) for tool in tools]}
    except Exception as error:  # noqa: BLE001 - the test checks it
        return {"error": f"{type(error).__name__}: {error}"}


async def run(client, script):
    async with client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        answers = [await answer(client, schemas, step) for step in script["steps"]]
        about = {"server": plain(client.server_info), "version": client.protocol_version}
        about["instructions"] = client.instructions
        return {"about": about, "answers": answers}


async def main(script):
    mode = script.get("mode", "auto")
    if "stdio" in script:
        program, *arguments = script["stdio"]
        # The client passes few variables on, but the server needs all of ours.
        server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        return await run(Client(stdio_client(server), mode=mode), script)
    token = script.get("token")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    path = script.get("socket")
    transport = httpx2.AsyncHTTPTransport(uds=path) if path else None
    async with httpx2.AsyncClient(headers=headers, timeout=600, transport=transport) as http:
        return await run(Client(streamable_http_client(script["http"], http_client=http), mode=mode), script)


def execute(script):
    try:
        return anyio.run(main, script)
    except* Exception as group:  # noqa: BLE001 - the test checks it
        refused = repr(group.exceptions)
    return {"refused": refused}


def serve(path):
    """Each script has a process of its own, a copy of this one with all modules."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            request = json.load(connection.makefile())
            os.environ.update(request["env"])
            connection.sendall(json.dumps(execute(request["script"])).encode())
            os._exit(0)
        connection.close()
    shutil.rmtree(os.path.dirname(path))


if sys.argv[1:2] == ["--serve"]:
    serve(sys.argv[2])
else:
    json.dump(execute(json.load(sys.stdin)), sys.stdout)
