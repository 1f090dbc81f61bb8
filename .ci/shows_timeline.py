"""Does a notebook that was run show a timeline at %trace? Usage: shows_timeline.py NOTEBOOK."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    cells = json.load(file)["cells"]
(outputs,) = [cell["outputs"] for cell in cells if "".join(cell["source"]) == "%trace"]
pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
if not any("holdfast-views" in page for page in pages):
    sys.exit(f"%trace showed no timeline: {outputs}")
print("\n".join("".join(output["data"]["text/plain"]) for output in outputs if "data" in output))
