# Calls of a Python program under the budgets of limiters on Redis, with nothing but the standard library. It runs the
# script that Sluice runs: python3 budgets-on-redis.py 127.0.0.1 6379 sluice acquire.lua crm acme 6
import hashlib, json, socket, sys, time, uuid
from urllib.parse import quote

host, port, namespace, script_file, limit, key, count = sys.argv[1:8]
script = open(script_file, encoding="utf8").read()
sha = hashlib.sha1(script.encode()).hexdigest()
connection = socket.create_connection((host, int(port)))
replies = connection.makefile("rb")


def command(*parts):
    """Sends one command as RESP, and reads its reply."""
    data = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    connection.sendall(b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in data))
    return reply()


def reply():
    line = replies.readline()[:-2]
    kind, rest = line[:1], line[1:]
    if kind == b"-":
        raise RuntimeError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else replies.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [reply() for _ in range(int(rest))]
    return rest


def acquire(weight=1, priority=0, lease_us=30_000_000):
    """True, or the wait in seconds; None: a permit has to return."""
    tag = "{sluice:" + namespace.replace("{", "%7B").replace("}", "%7D") + "}"
    bucket = quote(limit, safe="!'()*-._~") + ":" + key
    keys = [f"{tag}:policies", f"{tag}:b:{bucket}", f"{tag}:p:{bucket}"]
    request = [[0, priority, lease_us, str(uuid.uuid4()), 0, 0, 1, weight]]
    arguments = [json.dumps(request), json.dumps([limit]), "", ""]
    try:
        answer = command("EVALSHA", sha, len(keys), *keys, *arguments)[1]
    except RuntimeError as error:
        if not str(error).startswith("NOSCRIPT"):
            raise
        answer = command("EVAL", script, len(keys), *keys, *arguments)[1]
    if isinstance(answer, int) or answer[0] == 1:
        return True
    if answer[0] == 0:
        return None if answer[2] < 0 else answer[2] / 1e6
    raise LookupError("no process has defined the limit" if answer[0] == 2 else "only Sluice can decide now: ask it over HTTP")


began = time.monotonic()
for number in range(int(count)):
    while (granted := acquire()) is not True:
        time.sleep(0.05 if granted is None else granted)
    print(f"{key} call {number} after {int((time.monotonic() - began) * 10) / 10:.1f} s or a little more", flush=True)
