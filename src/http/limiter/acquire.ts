import type {
  Confirmation,
  Granted,
  HeldPermit,
  LimitBackend,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../../limiter/contract/limiter.ts'
import { shownBucket, storedId } from '../budgets.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { ownName, splitName } from '../tenant.ts'
import { Acquire, Confirm, Reserve, type UsesJson } from './schemas.ts'

/** A request that waits asks again after this time where a permit has to return, and at least after this time. */
const POLL_MS = 50
const SHORTEST_PAUSE_MS = 1

/** Takes units, each request whole or not at all. */
export const acquire: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/acquire',
  name: 'acquireUnits',
  summary: 'Take units of limits. Each request is granted whole or not at all, and told when to ask again.',
  body: Acquire,
  answers: { 200: 'An answer for each request, in order.' },
  async run(call) {
    const { body } = call
    const requests = await Promise.all(body.requests.map((each) => requestOf(call, each, body.lease_ms)))
    const [first] = requests
    const answers =
      body.wait_ms > 0 && first ? [await waited(call, first, body.wait_ms)] : await decided(call, requests)
    return ok({ answers: answers.map(answerJson) })
  },
})

/** Books the exact next start. */
export const reserve: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/reserve',
  name: 'reserveUnits',
  summary: 'Book the exact next start. Confirm it then.',
  body: Reserve,
  answers: { 200: 'The reservation, or why there is none.' },
  async run(call) {
    const { body, server } = call
    const request = await requestOf(call, body, body.lease_ms)
    const ask = (): Promise<ReservationAnswer> =>
      server.budgets.call(
        (backend) => backend.reserve(request, body.at_most_ms * 1000),
        ({ kind }) => kind === 'booked' && server.budgets.call((backend) => backend.cancel(request.permit)),
      )
    let answer = await ask()
    if (answer.kind === 'unknown') {
      await define(call, [request])
      answer = await ask()
    }
    if (answer.kind !== 'booked') return ok({ booked: false, ...deniedJson(answer) })
    return ok({ booked: true, id: splitName(answer.id).name, start_after_ms: answer.startAfterUs / 1000 })
  },
})

/** Asks at the start of a reservation whether it stands. */
export const confirm: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/confirm',
  name: 'confirmReservation',
  summary: 'Ask at the start of a reservation whether it stands: go, wait longer, or it is gone.',
  body: Confirm,
  answers: { 200: 'The state of the reservation.' },
  async run({ body, server, tenant }) {
    const id = storedId(tenant, body.id)
    const answer: Confirmation =
      id === null ? { kind: 'gone' } : await server.budgets.call((backend) => backend.confirm(id))
    if (answer.kind === 'gone') return ok({ state: 'gone' })
    if (answer.kind === 'granted') return ok({ state: 'go', ...grantedJson(answer) })
    return ok({ state: 'wait', start_after_ms: answer.startAfterUs / 1000, ...shownBucket(answer.by) })
  },
})

async function requestOf(
  { server, tenant }: Call<unknown, unknown, unknown>,
  { uses, priority }: { readonly uses: UsesJson; readonly priority: number },
  leaseMs: number,
): Promise<UnitRequest> {
  const line = 0
  return {
    uses: await server.budgets.uses(tenant, uses),
    priority,
    line,
    permit: ownName(tenant, server.newId()),
    leaseUs: leaseMs * 1000,
  }
}

/** Each request stands in a line of its own: one that is denied holds no other up. */
async function decided(
  call: Call<unknown, unknown, unknown>,
  requests: readonly UnitRequest[],
): Promise<readonly UnitAnswer[]> {
  const apart = requests.map((request, line) => ({ ...request, line }))
  const ask = (of: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> =>
    call.server.budgets.call(
      (backend) => backend.acquire(of),
      (late) => late.map((answer, i) => answer.kind === 'granted' && giveBack(call, of[i] as UnitRequest, answer)),
    )
  const answers = await ask(apart)
  const unknown = apart.filter((_, i) => answers[i]?.kind === 'unknown')
  if (unknown.length === 0) return answers
  await define(call, unknown)
  const again = [...(await ask(unknown))]
  return answers.map((answer) => (answer.kind === 'unknown' ? (again.shift() ?? answer) : answer))
}

/** Defines the limits of the configuration that requests name and the backend lacks. @throws {Refusal} 404 */
async function define(
  { server, tenant }: Call<unknown, unknown, unknown>,
  requests: readonly UnitRequest[],
): Promise<void> {
  const buckets = new Map(requests.flatMap(({ uses }) => uses.map((use) => [use.limit, use] as const)))
  for (const bucket of buckets.values()) await server.budgets.ensure(tenant, bucket, true)
}

async function giveBack(
  { server }: Call<unknown, unknown, unknown>,
  { uses }: UnitRequest,
  { atUs, permit }: Granted,
): Promise<void> {
  const back = async (backend: LimitBackend): Promise<void> => {
    // A limit of permits alone takes no units back.
    await Promise.allSettled(uses.map(({ limit, key, weight }) => backend.charge({ limit, key }, -weight, atUs)))
    if (permit) await backend.release([permit])
  }
  await server.budgets.call(back).catch(() => undefined)
}

/** Waits for one request, for as long as its client does. */
async function waited(
  call: Call<unknown, unknown, unknown>,
  request: UnitRequest,
  waitMs: number,
): Promise<UnitAnswer> {
  const { server, access, gone } = call
  const letGo = server.heldOpen.take(access, 'polls')
  const signal = AbortSignal.any([gone(), server.closing])
  try {
    const answer = await decideInTime(call, request, waitMs, signal)
    // A client that has gone would never return what it got.
    if (signal.aborted && answer.kind === 'granted') await giveBack(call, request, answer)
    return answer
  } finally {
    letGo()
  }
}

async function decideInTime(
  call: Call<unknown, unknown, unknown>,
  request: UnitRequest,
  waitMs: number,
  signal: AbortSignal,
): Promise<UnitAnswer> {
  const { clock, budgets } = call.server
  const untilUs = clock.monotonicUs() + waitMs * 1000
  for (;;) {
    const waitUs = untilUs - clock.monotonicUs()
    const answer = await budgets.call(
      async (backend) => {
        // In a wait list of the backend's own, this request stands behind those that came before.
        const found = backend.wait && (await waitThere(backend, request, waitUs, signal))
        return found && found.kind !== 'unknown' ? found : (await decided(call, [request]))[0]
      },
      (late) => late?.kind === 'granted' && giveBack(call, request, late),
      Math.max(0, waitUs) / 1000,
    )
    if (!answer || answer.kind !== 'denied') return answer as UnitAnswer
    const leftMs = (untilUs - clock.monotonicUs()) / 1000
    const pauseMs = answer.retryAfterUs === null ? POLL_MS : answer.retryAfterUs / 1000
    if (signal.aborted || leftMs <= 0 || (answer.retryAfterUs !== null && pauseMs > leftMs)) return answer
    await pause(call, Math.min(leftMs, Math.max(pauseMs, SHORTEST_PAUSE_MS)), signal)
  }
}

/** An abort is a denial: its client has gone. */
async function waitThere(
  backend: LimitBackend,
  request: UnitRequest,
  waitUs: number,
  signal: AbortSignal,
): Promise<UnitAnswer | undefined> {
  try {
    return await backend.wait?.(request, { waitUs: Math.max(0, waitUs), signal })
  } catch (error) {
    if (!signal.aborted) throw error
    return { kind: 'denied', by: request.uses[0] ?? { limit: '', key: '' }, retryAfterUs: 0 }
  }
}

function pause({ server }: Call<unknown, unknown, unknown>, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = server.clock.setTimer(end, ms)
    signal.addEventListener('abort', end)
  })
}

function answerJson(answer: UnitAnswer): Record<string, unknown> {
  return answer.kind === 'granted'
    ? { granted: true, ...grantedJson(answer) }
    : { granted: false, ...deniedJson(answer) }
}

function grantedJson({ atUs, permit }: Granted): Record<string, unknown> {
  return { granted_at_us: atUs, permit: permit && permitJson(permit) }
}

function deniedJson(answer: Exclude<UnitAnswer, Granted>): Record<string, unknown> {
  if (answer.kind === 'unknown') throw notFound('limit', splitName(answer.limit).name)
  const { by, retryAfterUs } = answer
  return { ...shownBucket(by), retry_after_ms: retryAfterUs === null ? null : retryAfterUs / 1000 }
}

function permitJson({ id, of }: HeldPermit): Record<string, unknown> {
  return { id: splitName(id).name, limits: of.map(shownBucket) }
}
