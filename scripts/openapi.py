"""Validates the documents of a folder, and the responses that a mock generated from them."""

import json
import pathlib
import sys

import yaml
from openapi_schema_validator import OAS30ReadValidator, OAS31Validator, oas30_format_checker, oas31_format_checker
from openapi_spec_validator import validate

folder, answers = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
documents, failed = {}, 0
for path in sorted(folder.iterdir()):
    # BaseLoader loses numbers, and the full loader converts texts to dates, which JSON does not have.
    loader = type("Loader", (yaml.SafeLoader,), {})
    loader.yaml_implicit_resolvers = {
        key: [(tag, expression) for tag, expression in found if tag != "tag:yaml.org,2002:timestamp"]
        for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    text = path.read_text()
    document = json.loads(text) if path.suffix == ".json" else yaml.load(text, loader)
    documents[path.name] = document
    try:
        validate(document)
    except Exception as error:
        # Two documents are invalid on purpose: one in a default, one in an example.
        if path.name not in ("15-enums-and-defaults.yaml", "17-examples-first.yaml"):
            failed += 1
            print(f"{path.name}: {error}", file=sys.stderr)

validators = {}
for answer in answers:
    document = documents[answer["document"]]
    key = (answer["document"], json.dumps(answer["schema"]))
    if key not in validators:
        old = document["openapi"].startswith("3.0")
        # References start at the root, which is the schema here.
        schema = {"components": document.get("components", {}), **answer["schema"]}
        kind, formats = (OAS30ReadValidator, oas30_format_checker) if old else (OAS31Validator, oas31_format_checker)
        validators[key] = kind(schema, format_checker=formats)
    for error in validators[key].iter_errors(answer["answer"]):
        # OpenAPI 3.0 does not define the format `time`; this package uses that of draft 3, which has no UTC offset.
        if error.validator == "format" and error.validator_value == "time" and document["openapi"].startswith("3.0"):
            continue
        failed += 1
        print(f"{answer['document']}: {error.json_path}: {error.message}\n  {answer['answer']}", file=sys.stderr)

print(f"{len(documents)} documents, {len(answers)} answers, {failed} failed")
sys.exit(1 if failed else 0)
