// Every verb that acts, at each of its doors: code, the command line, the monitor. One table says what the same wrong
// input is refused with, and the tests behind it say that no verb is left out.
import { afterAll, describe, expect, test } from 'vitest'
import { FlowsApi } from '../../src/engine/api/flows.ts'
import { JobsApi } from '../../src/engine/api/jobs.ts'
import { LimitsApi } from '../../src/engine/api/limits.ts'
import { QueuesApi } from '../../src/engine/api/queues.ts'
import { SchedulesApi } from '../../src/engine/api/schedules.ts'
import { workflow } from '../../src/exports/flows.ts'
import { input, limit, NonRetryable, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { monitorHandler } from '../../src/http/monitor/handler.ts'
import { MONITOR_ROUTES } from '../../src/http/monitor/routes.ts'
import { onSqlite } from '../stores.ts'
import { sluice as run } from './terminal.ts'

const UNKNOWN = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const LONG = 'x'.repeat(1001)

const plain = task('plain', input<unknown>(), { run: () => undefined })

/** The ids in the store of a row. */
interface Ids {
  readonly waiting: string
  readonly later: string
  readonly done: string
  readonly failed: string
  readonly flow: string
  readonly over: string
}
type Sent = readonly [method: string, path: string, body?: unknown]

/** A verb with an input that it refuses. */
interface Row {
  readonly verb: string
  readonly wrong: string
  /** Of `jobs.cancel` and the like; null: it has no such door. */
  readonly code: ((engine: Sluice, ids: Ids) => Promise<unknown>) | null
  readonly cli: ((ids: Ids) => readonly string[]) | null
  readonly monitor: ((ids: Ids) => Sent) | null
  /**
   * `invalid`, `unknown`, or `state`: it is there, and its state does not allow it. In code the last two may be the
   * answer false or null.
   */
  readonly is: 'invalid' | 'unknown' | 'state'
}

const row = (
  verb: string,
  wrong: string,
  is: Row['is'],
  code: Row['code'],
  cli: Row['cli'],
  monitor: Row['monitor'],
): Row => ({ verb, wrong, is, code, cli, monitor })

const bulk = (action: string, filter: object, more: object = {}): Sent => ['POST', '/bulk', { action, filter, ...more }]

/** The options of a call as the monitor takes them. */
const asked = ({ retry, delay, runAt, unique, ...rest }: Readonly<Record<string, unknown>>): object => ({
  ...rest,
  ...(retry !== undefined && { attempts: (retry as { attempts: number }).attempts }),
  ...(unique !== undefined && { unique: (unique as { key: string }).key }),
  ...((delay !== undefined || runAt !== undefined) && { runAt: delay ?? runAt }),
})

const ROWS: readonly Row[] = [
  // jobs: one
  ...(['cancel', 'retry', 'delete'] as const).flatMap((verb) => {
    const sent = (id: string): Sent => (verb === 'delete' ? ['DELETE', `/jobs/${id}`] : ['POST', `/jobs/${id}/${verb}`])
    const wrongState = (ids: Ids): string => (verb === 'cancel' ? ids.done : ids.waiting)
    return [
      row(
        `jobs.${verb}`,
        'an unknown id',
        'unknown',
        (engine) => engine.jobs[verb](UNKNOWN),
        () => ['jobs', verb, UNKNOWN, '--yes'],
        () => sent(UNKNOWN),
      ),
      row(
        `jobs.${verb}`,
        'a job whose state does not allow it',
        'state',
        (engine, ids) => engine.jobs[verb](wrongState(ids)),
        (ids) => ['jobs', verb, wrongState(ids), '--yes'],
        (ids) => sent(wrongState(ids)),
      ),
    ]
  }),
  row(
    'jobs.promote',
    'an unknown id',
    'unknown',
    (engine) => engine.jobs.promote(UNKNOWN),
    () => ['jobs', 'promote', UNKNOWN],
    () => ['POST', `/jobs/${UNKNOWN}/run-now`],
  ),
  row(
    'jobs.promote',
    'a job that does not wait for a time',
    'state',
    (engine, { done }) => engine.jobs.promote(done),
    ({ done }) => ['jobs', 'promote', done],
    ({ done }) => ['POST', `/jobs/${done}/run-now`],
  ),
  row(
    'jobs.reschedule',
    'an unknown id',
    'unknown',
    (engine) => engine.jobs.reschedule(UNKNOWN, new Date(4e12)),
    () => ['jobs', 'reschedule', UNKNOWN, '2100-01-01T00:00:00Z'],
    () => ['PATCH', `/jobs/${UNKNOWN}`, { runAt: '2100-01-01T00:00:00Z' }],
  ),
  row(
    'jobs.reschedule',
    'a job that has ended',
    'state',
    (engine, { done }) => engine.jobs.reschedule(done, new Date(4e12)),
    ({ done }) => ['jobs', 'reschedule', done, '2100-01-01T00:00:00Z'],
    ({ done }) => ['PATCH', `/jobs/${done}`, { runAt: '2100-01-01T00:00:00Z' }],
  ),
  ...['5', 'tomorrow', '2100-02-31T00:00:00Z', '2100-01-01T00:00:00', '2200-01-01T00:00:00Z', ''].map((time) =>
    row(
      'jobs.reschedule',
      `the time '${time}'`,
      'invalid',
      (engine, { later }) => engine.jobs.reschedule(later, time.startsWith('22') ? new Date(time) : (time as never)),
      ({ later }) => ['jobs', 'reschedule', later, time],
      ({ later }) => ['PATCH', `/jobs/${later}`, { runAt: time }],
    ),
  ),
  row(
    'jobs.reprioritize',
    'an unknown id',
    'unknown',
    (engine) => engine.jobs.reprioritize(UNKNOWN, 5),
    () => ['jobs', 'reprioritize', '5', UNKNOWN, '--yes'],
    () => ['PATCH', `/jobs/${UNKNOWN}`, { priority: 5 }],
  ),
  row(
    'jobs.reprioritize',
    'a job that has ended',
    'state',
    (engine, { done }) => engine.jobs.reprioritize(done, 5),
    ({ done }) => ['jobs', 'reprioritize', '5', done, '--yes'],
    ({ done }) => ['PATCH', `/jobs/${done}`, { priority: 5 }],
  ),
  ...[101, -101, 0.5, '0x10', ''].flatMap((priority) => [
    row(
      'jobs.reprioritize',
      `the priority '${priority}'`,
      'invalid',
      (engine, { waiting }) => engine.jobs.reprioritize(waiting, priority as number),
      ({ waiting }) => ['jobs', 'reprioritize', String(priority), waiting, '--yes'],
      ({ waiting }) => ['PATCH', `/jobs/${waiting}`, { priority }],
    ),
    row(
      'jobs.reprioritizeMany',
      `the priority '${priority}'`,
      'invalid',
      (engine) => engine.jobs.reprioritizeMany({ states: ['available'] }, { priority: priority as number }),
      () => ['jobs', 'reprioritize', String(priority), '--state', 'available', '--yes'],
      () => bulk('priority', { state: 'available' }, { priority }),
    ),
  ]),
  row(
    'jobs.reprioritizeMany',
    'an empty filter',
    'invalid',
    (engine) => engine.jobs.reprioritizeMany({}, { priority: 5 }),
    () => ['jobs', 'reprioritize', '5', '--yes'],
    () => bulk('priority', {}, { priority: 5 }),
  ),
  row(
    'jobs.reprioritizeMany',
    'no priority',
    'invalid',
    (engine) => engine.jobs.reprioritizeMany({ states: ['available'] }, {} as never),
    () => ['jobs', 'reprioritize'],
    () => bulk('priority', { state: 'available' }),
  ),
  // jobs: many
  ...(['cancel', 'retry', 'delete'] as const).flatMap((verb) => [
    row(
      `jobs.${verb}Many`,
      'an empty filter',
      'invalid',
      (engine) => engine.jobs[`${verb}Many`]({}),
      () => ['jobs', verb, '--yes'],
      () => bulk(verb, {}),
    ),
    row(
      `jobs.${verb}Many`,
      'an unknown state',
      'invalid',
      (engine) => engine.jobs[`${verb}Many`]({ states: ['waiting'] as never }),
      () => ['jobs', verb, '--state', 'waiting', '--yes'],
      () => bulk(verb, { state: 'waiting' }),
    ),
    row(
      `jobs.${verb}Many`,
      'a misspelt field',
      'invalid',
      (engine) => engine.jobs[`${verb}Many`]({ queu: 'a' } as never),
      () => ['jobs', verb, '--filter', 'queu=a', '--yes'],
      () => bulk(verb, { queu: 'a' }),
    ),
  ]),
  row(
    'jobs.moveMany',
    'a queue of an invalid name',
    'invalid',
    (engine) => engine.jobs.moveMany({ states: ['available'] }, { to: 'No Queue' }),
    () => ['jobs', 'move', 'No Queue', '--state', 'available', '--yes'],
    () => bulk('move', { state: 'available' }, { to: 'No Queue' }),
  ),
  row(
    'jobs.moveMany',
    'no queue',
    'invalid',
    (engine) => engine.jobs.moveMany({ states: ['available'] }, {} as never),
    () => ['jobs', 'move'],
    () => bulk('move', { state: 'available' }),
  ),
  // queues
  ...(['pause', 'resume'] as const).map((verb) =>
    row(
      `queues.${verb}`,
      'an unknown name',
      'unknown',
      // Code may name a queue before its first job.
      null,
      () => ['queues', verb, 'No Queue'],
      () => ['PUT', `/queues/No%20Queue/${verb}`],
    ),
  ),
  ...(['pause', 'resume'] as const).map((verb) =>
    row(`queues.${verb}`, 'an invalid name', 'invalid', (engine) => engine.queues[verb]('No Queue'), null, null),
  ),
  ...[0, -1, 1.5, 1e9 + 1].map((most) =>
    row(
      'queues.bound',
      `a bound of ${most}`,
      'invalid',
      (engine) => engine.queues.bound('default', most),
      () => ['queues', 'bound', 'default', String(most)],
      () => ['PUT', '/queues/default/bound', { maxDepth: most }],
    ),
  ),
  row(
    'queues.drain',
    'an invalid timeout',
    'invalid',
    (engine) => engine.queues.drain('default', { timeout: 'soon' as never }),
    () => ['queues', 'drain', 'default', '--timeout', 'soon'],
    () => ['POST', '/queues/default/drain', { timeout: 'soon' }],
  ),
  row(
    'queues.drain',
    'an unknown name',
    'unknown',
    // Code may name a queue before its first job.
    null,
    () => ['queues', 'drain', 'nope'],
    () => ['POST', '/queues/nope/drain'],
  ),
  // limits
  ...(['pause', 'resume', 'override', 'penalize', 'clearOverride'] as const).flatMap((verb) => {
    const name = verb === 'clearOverride' ? 'clear' : verb
    const value: unknown[] = { override: ['5/s'], penalize: ['10m'] }[verb as string] ?? []
    const sent = (of: string, body: object = {}): Sent => {
      if (verb === 'clearOverride')
        return ['DELETE', `/limits/${of}/override${'reason' in body ? `?reason=${LONG}` : ''}`]
      const full = { override: { change: '5/s' }, penalize: { until: '10m' } }[verb as string] ?? {}
      return ['PUT', `/limits/${of}/${verb === 'penalize' ? 'penalty' : verb}`, { ...full, ...body }]
    }
    const call = (engine: Sluice, of: string, options: object = {}): Promise<unknown> => {
      const { limits } = engine
      if (verb === 'override') return limits.override(of, undefined, '5/s', options)
      if (verb === 'penalize') return limits.penalize(of, undefined, '10m')
      return limits[verb](of, undefined, options)
    }
    return [
      row(
        `limits.${verb}`,
        'an unknown limit',
        'unknown',
        (engine) => call(engine, 'nope'),
        () => ['limits', name, 'nope', ...(value as string[])],
        () => sent('nope'),
      ),
      ...(verb === 'penalize'
        ? []
        : [
            row(
              `limits.${verb}`,
              'a reason that is too long',
              'invalid',
              (engine) => call(engine, 'crm', { reason: LONG }),
              () => ['limits', name, 'crm', ...(value as string[]), '--reason', LONG],
              () => sent('crm', { reason: LONG }),
            ),
          ]),
      ...(verb === 'pause' || verb === 'override'
        ? ['soon', '-5m', '0s', '2000-01-01T00:00:00Z', '2100-02-31T00:00:00Z', '2200-01-01T00:00:00Z'].map((until) =>
            row(
              `limits.${verb}`,
              `until '${until}'`,
              'invalid',
              (engine) => call(engine, 'crm', { until: /^2[01]00-0\d-01/.test(until) ? new Date(until) : until }),
              () => ['limits', name, 'crm', ...(value as string[]), `--until=${until}`],
              () => sent('crm', { until }),
            ),
          )
        : []),
    ]
  }),
  ...['', '5 per fortnight', '0/s', '-5/s'].map((change) =>
    row(
      'limits.override',
      `to '${change}'`,
      'invalid',
      (engine) => engine.limits.override('crm', undefined, change),
      () => ['limits', 'override', 'crm', '--', change],
      () => ['PUT', '/limits/crm/override', { change }],
    ),
  ),
  ...['soon', '0s', '2000-01-01T00:00:00Z', ''].map((until) =>
    row(
      'limits.penalize',
      `until '${until}'`,
      'invalid',
      (engine) =>
        engine.limits.penalize('crm', undefined, until.startsWith('2000') ? new Date(until) : (until as never)),
      () => ['limits', 'penalize', 'crm', until],
      () => ['PUT', '/limits/crm/penalty', { until }],
    ),
  ),
  // schedules
  ...(['pause', 'resume', 'run', 'remove'] as const).map((verb) =>
    row(
      `schedules.${verb}`,
      'an unknown name',
      'unknown',
      (engine) => engine.schedules[verb]('nope'),
      () => ['schedules', verb === 'remove' ? 'rm' : verb, 'nope', ...(verb === 'remove' ? ['--yes'] : [])],
      () =>
        verb === 'remove'
          ? ['DELETE', '/schedules/nope']
          : [verb === 'run' ? 'POST' : 'PUT', `/schedules/nope/${verb}`],
    ),
  ),
  // flows
  ...(['cancel', 'retry', 'signal'] as const).flatMap((verb) => {
    const more = verb === 'signal' ? ['go'] : []
    const sent = (id: string): Sent => ['POST', `/flows/${id}/${verb}`, verb === 'signal' ? { name: 'go' } : {}]
    const call = (engine: Sluice, id: string): Promise<unknown> =>
      verb === 'signal' ? engine.flows.signal(id, 'go', null) : engine.flows[verb](id)
    return [
      row(
        `flows.${verb}`,
        'an unknown id',
        'unknown',
        (engine) => call(engine, UNKNOWN),
        () => ['flows', verb, UNKNOWN, ...more],
        () => sent(UNKNOWN),
      ),
      row(
        `flows.${verb}`,
        'a flow whose state does not allow it',
        'state',
        (engine, ids) => call(engine, verb === 'retry' ? ids.flow : ids.over),
        (ids) => ['flows', verb, verb === 'retry' ? ids.flow : ids.over, ...more],
        (ids) => sent(verb === 'retry' ? ids.flow : ids.over),
      ),
    ]
  }),
  ...['', 'x'.repeat(256)].flatMap((text) => [
    row(
      'flows.signal',
      `a name of ${text.length} characters`,
      'invalid',
      (engine, { flow }) => engine.flows.signal(flow, text, null),
      ({ flow }) => ['flows', 'signal', flow, text],
      ({ flow }) => ['POST', `/flows/${flow}/signal`, { name: text }],
    ),
    row(
      'flows.signal',
      `once of ${text.length} characters`,
      'invalid',
      (engine, { flow }) => engine.flows.signal(flow, 'go', null, { once: text }),
      ({ flow }) => ['flows', 'signal', flow, 'go', '--once', text],
      ({ flow }) => ['POST', `/flows/${flow}/signal`, { name: 'go', once: text }],
    ),
    row(
      'flows.retry',
      `from of ${text.length} characters`,
      'invalid',
      (engine, { over }) => engine.flows.retry(over, { from: text }),
      ({ over }) => ['flows', 'retry', over, '--from', text],
      ({ over }) => ['POST', `/flows/${over}/retry`, { from: text }],
    ),
  ]),
  // enqueue
  ...(
    [
      ['a priority of 101', { priority: 101 }, ['--priority', '101']],
      ['a priority of half', { priority: 0.5 }, ['--priority', '0.5']],
      ['a priority that is empty', { priority: '' }, ['--priority', '']],
      ['a priority in hexadecimal', { priority: '0x10' }, ['--priority', '0x10']],
      ['no attempt', { retry: { attempts: 0 } }, ['--attempts', '0']],
      ['10,001 attempts', { retry: { attempts: 10_001 } }, ['--attempts', '10001']],
      ['a negative delay', { delay: '-5m' }, ['--delay=-5m']],
      ['a delay in words', { delay: 'soon' }, ['--delay', 'soon']],
      ['an empty delay', { delay: '' }, ['--delay', '']],
      ['a time without a zone', { runAt: '2100-01-01T00:00:00' }, ['--run-at', '2100-01-01T00:00:00']],
      ['a time too far ahead', { runAt: new Date('2200-01-01') }, ['--run-at', '2200-01-01T00:00:00Z']],
      ['an empty unique key', { unique: { key: '' } }, ['--unique', '']],
      ['an invalid queue', { queue: 'No Queue' }, ['--queue', 'No Queue']],
    ] as const
  ).map(([wrong, options, args]) =>
    row(
      'enqueue',
      wrong,
      'invalid',
      () => plain.enqueue(null, options as never),
      () => ['enqueue', 'plain', '--no-limits', ...args],
      () => ['POST', '/jobs', { task: 'plain', ...asked(options) }],
    ),
  ),
  row(
    'enqueue',
    'an unknown limit',
    'unknown',
    null,
    () => ['enqueue', 'elsewhere', '--limit', 'nope'],
    () => ['POST', '/jobs', { task: 'elsewhere', limits: [{ limit: 'nope' }] }],
  ),
  ...(
    [
      ['a task whose limits nobody names', [], undefined],
      ['one budget twice', ['--limit', 'crm', '--limit', 'crm'], [{ limit: 'crm' }, { limit: 'crm' }]],
      ['a weight of nothing', ['--limit', 'crm', '--weight', '0'], [{ limit: 'crm' }]],
      ['a weight above the burst', ['--limit', 'crm', '--weight', '2'], [{ limit: 'crm' }]],
    ] as const
  ).map(([wrong, args, limits]) =>
    row(
      'enqueue',
      wrong,
      'invalid',
      null,
      () => ['enqueue', 'elsewhere', ...args],
      () => [
        'POST',
        '/jobs',
        { task: 'elsewhere', limits, ...(args[2] === '--weight' && { weight: Number(args[3]) }) },
      ],
    ),
  ),
  row(
    'enqueue',
    'a weight without a limit',
    'invalid',
    null,
    () => ['enqueue', 'elsewhere', '--no-limits', '--weight', '2'],
    () => ['POST', '/jobs', { task: 'elsewhere', limits: [], weight: 2 }],
  ),
  row('enqueue', 'a name that no store keeps', 'invalid', null, null, () => [
    'POST',
    '/jobs',
    { task: 'a\u0000b', limits: [] },
  ]),
  row('enqueue', 'the name of a workflow', 'invalid', null, null, () => ['POST', '/jobs', { task: 'asks' }]),
  row('flows.start', 'an unknown workflow', 'unknown', null, null, () => ['POST', '/flows', { workflow: 'nope' }]),
  ...['', 'x'.repeat(256), 'a/b'].map((key) =>
    row('flows.start', `a key of ${key.length} characters`, 'invalid', null, null, () => [
      'POST',
      '/flows',
      { workflow: 'asks', input: null, key },
    ]),
  ),
]

/** A store with something for each verb. */
async function open(): Promise<{ engine: Sluice; ids: Ids; url: string }> {
  const url = onSqlite.create(afterAll)
  const crm = limit('crm', { rate: 1, per: '1h', burst: 1 })
  const work = task('work', input<unknown>(), { limits: [crm], run: () => undefined })
  const asks = workflow('asks', input<null>(), {
    signals: { go: input<null>() },
    run: (_, flow) => flow.signal('go'),
  })
  const fails = workflow('fails', input<null>(), {
    signals: { go: input<null>() },
    run: async () => {
      throw new NonRetryable('it is broken')
    },
  })
  const engine = new Sluice({ store: url, tasks: [work, plain], workflows: [asks, fails], logger: silentLogger })
  const first = await work.enqueue(1)
  const waiting = await work.enqueue(2)
  const later = await plain.enqueue(3, { delay: '1d' })
  await engine.schedule(work, null, { cron: '0 9 1 1 *', timezone: 'UTC', name: 'yearly' })
  const flow = await asks.start(null)
  const over = await fails.start(null)
  await engine.start()
  await first.result()
  await over.result().catch(() => undefined)
  const ids = { waiting: waiting.id, later: later.id, done: first.id, failed: over.id, flow: flow.id, over: over.id }
  return { engine, url, ids }
}

const { engine, url, ids } = await open()
const monitor = monitorHandler({ sluice: engine, authorize: () => ({ role: 'operator', name: 'ann' }) })
afterAll(() => engine.stop({ within: 0 }))

/** The code of the error of a call, or its answer that nothing was changed. */
async function byCode(call: NonNullable<Row['code']>): Promise<string> {
  try {
    const answer = await call(engine, ids)
    return answer === false || answer === null ? 'nothing' : `done: ${JSON.stringify(answer)}`
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
}

function classOf(code: string): string {
  if (/\.invalid$|^cli\.usage$|^limit\.weight/.test(code)) return 'invalid'
  if (/\.(unknown|not_found)$/.test(code)) return 'unknown'
  return 'state'
}

describe.each(ROWS.map((each) => [`${each.verb} with ${each.wrong}`, each] as const))('%s', (_, each) => {
  test.skipIf(each.code === null)('in code', async () => {
    const found = await byCode(each.code as NonNullable<Row['code']>)
    expect(found).not.toMatch(/^done/)
    if (found !== 'nothing') expect([found, classOf(found)]).toEqual([found, each.is])
    else expect(each.is).not.toBe('invalid')
  })

  test.skipIf(each.cli === null)('on the command line', async () => {
    const { code, out, err } = await run([...(each.cli?.(ids) ?? []), '--store', url])
    const said = /^error ([a-z_.]+):/.exec(err)?.[1]
    expect({ code, err, out }).toMatchObject({ code: each.is === 'invalid' ? 2 : 1 })
    if (said !== undefined) expect([said, classOf(said)]).toEqual([said, each.is])
  })

  test.skipIf(each.monitor === null)('at the monitor', async () => {
    const [method, path, body] = each.monitor?.(ids) ?? ['', '']
    const answer = await monitor.fetch(
      new Request(`http://app/monitor/v1${path}`, {
        method,
        headers: { 'X-Sluice-Request': '1', ...(body !== undefined && { 'Content-Type': 'application/json' }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    )
    const said = (await answer.json()) as { error?: { code: string }; done?: boolean }
    const found = said.error?.code ?? (said.done === false ? 'done: false' : 'done')
    const expected = {
      invalid: ['invalid_request'],
      unknown: ['not_found', 'x_workflow_unknown'],
      state: ['conflict', 'done: false'],
    }[each.is]
    expect({ said, fits: expected.includes(found) }).toMatchObject({ fits: true })
  })
})

const READS: Readonly<Record<string, readonly string[]>> = {
  jobs: ['get', 'list', 'page', 'iterate', 'count', 'result', 'explain', 'changing'],
  queues: ['list', 'get'],
  limits: ['list', 'inspect', 'inspectKeys', 'overrides', 'waitingByLimit', 'replay', 'waits', 'waiting'],
  schedules: ['list', 'get'],
  flows: ['get', 'list', 'page', 'inspect', 'explain', 'jobs'],
}
/** A worker of another process, and what a Ctrl-C does on the command line. */
const MONITOR_ALONE = ['PUT /monitor/v1/workers/:name/quiet', 'POST /monitor/v1/bulk/:id/stop']
/** Verbs of code alone: they take what only a process has, such as a function, a task or a schema. */
const CODE_ALONE = ['limits.acquire', 'limits.run', 'flows.register', 'schedules.register']

test('every verb that acts is in the table', () => {
  const apis = { jobs: JobsApi, queues: QueuesApi, limits: LimitsApi, schedules: SchedulesApi, flows: FlowsApi }
  const verbs = Object.entries(apis).flatMap(([name, { prototype }]) =>
    Object.getOwnPropertyNames(prototype)
      .filter((verb) => verb !== 'constructor' && !READS[name]?.includes(verb))
      .map((verb) => `${name}.${verb}`),
  )
  const known = new Set([...ROWS.map(({ verb }) => verb), ...CODE_ALONE])
  expect(verbs.filter((verb) => !known.has(verb))).toEqual([])
})

test('every change of the monitor is in the table', () => {
  const sent = ROWS.flatMap(({ monitor: of }) => (of ? [of(ids)] : []))
  const changes = MONITOR_ROUTES.filter(({ method, path }) => method !== 'GET' && !/\/keys\/|what-if/.test(path))
  const left = changes.filter(({ method, path }) => {
    const pattern = new RegExp(`^${path.replace('/monitor/v1', '').replaceAll(/:\w+/g, '[^/]+')}(\\?.*)?$`)
    return !sent.some(([by, at]) => by === method && pattern.test(at))
  })
  expect(left.map(({ method, path }) => `${method} ${path}`)).toEqual(MONITOR_ALONE)
})
