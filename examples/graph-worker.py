# Runs the steps of a graph over HTTP, with nothing but the standard library:
#   python3 graph-worker.py http://127.0.0.1:8080 python code.review '{"pr": 17, "tenant": "acme"}'
# It starts a flow of the graph, works off the steps that its queue gets, and follows the flow to its end.
# python-worker.py shows what a worker of every day needs beside: leases, repeated answers, a clean stop.
import json, os, socket, sys, urllib.error, urllib.request

server, queue, graph, given = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
worker, token = f"python-{socket.gethostname()}-{os.getpid()}", os.environ.get("SLUICE_TOKEN")

# The code of the steps, by the names of their tasks. Each gets the input that the graph says, and its result is what
# later steps see. An exception is a failed attempt, which the graph's `retry` repeats.
steps = {
    "git.diff": lambda job: {"files": [f"{job['pr']}/a.ts", f"{job['pr']}/b.ts"]},
    "llm.comment": lambda job: f"{job['file']} reads well",
    "review.post": lambda job: {"comments": len(job["comments"])},
}


def call(path, body=None):
    headers = {"Content-Type": "application/openjobspec+json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server + path, data, headers), timeout=30) as answer:
        return json.load(answer)


def work(job):
    about = {"job_id": job["id"], "worker_id": worker, "attempt": job["attempt"]}
    try:
        result = steps[job["type"]](*job["args"])
    except Exception as error:
        return call("/ojs/v1/workers/nack", {**about, "error": {"code": "step_failed", "message": repr(error)}})
    return call("/ojs/v1/workers/ack", {**about, "result": result})


# With a key the start may be sent again: at most one flow of it runs.
flow = call(f"/flows/v1/{graph}", {"input": given, "key": f"pr-{given['pr']}"})["id"]
while (seen := call(f"/flows/v1/flows/{flow}"))["state"] == "running":
    # A step comes here once those before it have ended and all its limits have admitted it.
    wanted = {"queues": [queue], "worker_id": worker, "types": list(steps), "wait": "PT1S"}
    for job in call("/ojs/v1/workers/fetch", wanted)["jobs"]:
        work(job)
print(", ".join(f"{step['name']} {step['state']}" for step in seen["steps"]))
print(seen["state"], json.dumps(seen.get("result")))
