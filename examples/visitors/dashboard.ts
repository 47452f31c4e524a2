// The dashboard of an example answers a stranger and ada.
import { deepEqual } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'

/**
 * Visits a dashboard and prints what each visitor gets.
 * @param url where it is mounted
 * @param send sends a request; default `fetch`
 * @throws if a visitor gets anything else than it should
 */
export async function visit(
  url: string,
  send: (request: Request) => Promise<Response> = (request) => fetch(request),
): Promise<void> {
  const ask = (path: string, given: RequestInit = {}): Promise<Response> => send(new Request(`${url}${path}`, given))
  const cookie = 'session=ada'
  const page = await ask('')
  const stranger = await ask('/monitor/v1/me')
  const ada = await ask('/monitor/v1/me', { headers: { cookie } })
  // A store knows a queue once an engine has looked for work in it.
  while ((await ask('/monitor/v1/queues/default', { headers: { cookie } })).status === 404) await setImmediate()
  const pause = await ask('/monitor/v1/queues/default/pause', {
    method: 'PUT',
    headers: { cookie, 'content-type': 'application/json', 'x-sluice-request': '1' },
    body: '{ "reason": "a try" }',
  })
  const { role } = (await ada.json()) as { role: string }
  const got = { 'the page': page.status, 'a stranger': stranger.status, ada: role, 'a pause': pause.status }
  console.log(got)
  deepEqual(got, { 'the page': 200, 'a stranger': 401, ada: 'operator', 'a pause': 200 })
}
