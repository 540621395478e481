"""Drives the MCP server of Argus with the official Python client, by a script of steps on stdin.

{"stdio": [PROGRAM, ARGUMENT...]} or {"http": URL, "token": TOKEN, "socket": PATH}, "mode": "auto" or "legacy", and "steps":
{"tools": true} | {"call": NAME, "arguments": {...}, "progress": bool, "cancel": WHEN, "mark": FILE} | {"resources": true} | {"read": URI}
The client cancels a call after its first progress message if WHEN is "progress", else when the file WHEN exists. It creates the file FILE
at each progress message.

Prints a list with one response per step. The response of a tool is validated against its published schema.
"""

import json
import os
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
    jsonschema.validate(result["structuredContent"], schemas[step["call"]])
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
        return {"tools": [plain(tool) for tool in (await client.list_tools()).tools]}
    except Exception as error:  # noqa: BLE001 - the test checks it
        return {"error": f"{type(error).__name__}: {error}"}


async def run(client, script):
    async with client:
        tools = (await client.list_tools()).tools
        schemas = {}
        for tool in tools:
            for schema in (tool.input_schema, tool.output_schema):
                jsonschema.Draft202012Validator.check_schema(schema)
            schemas[tool.name] = tool.output_schema
        answers = [await answer(client, schemas, step) for step in script["steps"]]
        about = {"server": plain(client.server_info), "version": client.protocol_version}
        about["instructions"] = client.instructions
        return {"about": about, "answers": answers}


async def main():
    script = json.load(sys.stdin)
    mode = script.get("mode", "auto")
    if "stdio" in script:
        program, *arguments = script["stdio"]
        # The client passes few variables on, but the server needs all of ours.
        server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        output = await run(Client(stdio_client(server), mode=mode), script)
    else:
        token = script.get("token")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        socket = script.get("socket")
        transport = httpx2.AsyncHTTPTransport(uds=socket) if socket else None
        async with httpx2.AsyncClient(headers=headers, timeout=600, transport=transport) as http:
            output = await run(Client(streamable_http_client(script["http"], http_client=http), mode=mode), script)
    json.dump(output, sys.stdout)


try:
    anyio.run(main)
except* Exception as group:  # noqa: BLE001 - the test checks it
    json.dump({"refused": repr(group.exceptions)}, sys.stdout)
