# A worker in Python, with nothing but the standard library: python3 python-worker.py http://127.0.0.1:8080 mail
import json, sys, urllib.request

server, queue = sys.argv[1], sys.argv[2]
handlers = {"mail.send": lambda to: {"sent": to}}


def post(path, body):
    headers = {"Content-Type": "application/openjobspec+json"}
    request = urllib.request.Request(f"{server}/ojs/v1/workers/{path}", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))


while True:
    for job in post("fetch", {"queues": [queue], "worker_id": "python-1", "wait": "PT20S"})["jobs"]:
        run = {"job_id": job["id"], "worker_id": "python-1", "attempt": job["attempt"]}
        try:
            result = handlers[job["type"]](*job["args"])
            post("ack", {**run, "result": result})
        except Exception as error:
            post("nack", {**run, "error": {"code": "handler_error", "message": repr(error)}})
