# Calls of a Python program under the budgets of a Sluice server, with nothing but the standard library:
# python3 budgets-over-http.py http://127.0.0.1:8080 acme 6
import json, os, sys, threading, time, urllib.request

server, tenant, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
token, LEASE_MS = os.environ.get("SLUICE_TOKEN"), 30_000


def ask(verb, body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"{server}/limiter/v1/{verb}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


def acquire(uses, wait_s):
    """Waits for all units, and takes them. None: they are not there in time."""
    until = time.monotonic() + wait_s
    while True:
        left_ms = max(0, min(30_000, int((until - time.monotonic()) * 1000)))
        answer = ask("acquire", {"requests": [{"uses": uses}], "wait_ms": left_ms, "lease_ms": LEASE_MS})["answers"][0]
        if answer["granted"]:
            return answer
        retry_ms = answer["retry_after_ms"] or 50
        if time.monotonic() + retry_ms / 1000 > until:
            return None
        time.sleep(retry_ms / 1000)


def run(uses, work, wait_s=60):
    granted = acquire(uses, wait_s)
    if granted is None:
        raise TimeoutError(f"no budget for {uses} within {wait_s} s")
    permit, ended = granted["permit"], threading.Event()

    def renew():
        while not ended.wait(LEASE_MS / 3000):
            ask("extend", {"permits": [permit], "lease_ms": LEASE_MS})

    if permit:
        threading.Thread(target=renew, daemon=True).start()
    try:
        return work()
    finally:
        ended.set()
        if permit:
            ask("release", {"permits": [permit]})


began = time.monotonic()
for number in range(count):
    uses = [{"limit": "crm", "key": tenant}, {"limit": "connections"}]
    run(uses, lambda: print(f"{tenant} call {number} after {int((time.monotonic() - began) * 10) / 10:.1f} s or a little more", flush=True))
ask("penalize", {"limit": "crm", "key": tenant, "for_ms": 200})
print(f"{tenant} waits after a refusal: {run([{'limit': 'crm', 'key': tenant}], lambda: time.monotonic() - began > count / 20)}")
