// A step that fails is named, with its attempt, in every line of the log, in every event and in the error of its flow.
import { describe, expect, test } from 'vitest'
import { input, limit, type Sluice } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'
import { mortalStore } from './mortal-store.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const retry = { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false } as const
const broken = (): never => {
  throw new Error('it is broken')
}

/** Flows of which the step `pay` fails twice, in the slot of the flow or in a lane. */
const DOORS: Record<
  string,
  () => Pick<Startable<{ n: number }, unknown>, 'name'> & { start(input: { n: number }): Promise<{ id: string }> }
> = {
  'workflow in place': () =>
    workflow('w', numbered, {
      run: (_, flow) => flow.step('pay', { retry }, ({ logger }) => (logger.info({}, 'paying'), broken())),
    }),
  'workflow under a limit': () =>
    workflow('w', numbered, {
      run: (_, flow) =>
        flow.step(
          'pay',
          { retry, limits: [limit('api', '100/s')] },
          ({ logger }) => (logger.info({}, 'paying'), broken()),
        ),
    }),
  'workflow beside another step': () =>
    workflow('w', numbered, {
      run: async (_, flow) => {
        const limits = [limit('api', '100/s')]
        await Promise.all([
          flow.step('other', { limits }, () => 1),
          flow.step('pay', { retry, limits }, ({ logger }) => (logger.info({}, 'paying'), broken())),
        ])
      },
    }),
  machine: () =>
    machine('w', {
      states: { pay: numbered },
      first: 'pay',
      retry,
      run: { pay: (_, { logger }) => (logger.info({}, 'paying'), broken()) },
    }),
  'graph in place': () =>
    graph('w', numbered)
      .step('pay', { retry }, (_, { logger }) => (logger.info({}, 'paying'), broken()))
      .output(() => null),
  'graph under a limit': () =>
    graph('w', numbered)
      .step('pay', { retry, limits: [limit('api', '100/s')] }, (_, { logger }) => (logger.info({}, 'paying'), broken()))
      .output(() => null),
}

describe.each(STORES)('a failed step on $name', (store) => {
  test.each(Object.entries(DOORS))('of a %s is named wherever its failure is told', async (_, define) => {
    const w = new FlowsHarness(store)
    const lines: { level: string; message: string; fields: Record<string, unknown> }[] = []
    const at =
      (level: string) =>
      (fields: object, message: string): void =>
        void lines.push({ level, message, fields: { ...fields } })
    const logger = { debug: () => undefined, info: at('info'), warn: at('warn'), error: at('error') }
    const door = define()
    const engine = await w.start({ workflows: [door], logger })
    const elsewhere = w.create({})
    const heard = [await failures(engine, false), await failures(elsewhere, true)]
    const flow = await door.start({ n: 1 })
    await w.clock.advance('10s')
    const about = { flow: flow.id, step: 'pay' }
    const told = (level: string): unknown => lines.filter((line) => line.level === level).map(({ fields }) => fields)
    expect(told('info')).toMatchObject([
      { ...about, attempt: 1 },
      { ...about, attempt: 2 },
    ])
    expect(lines.find(({ level }) => level === 'warn')?.fields).toMatchObject({ ...about, attempt: 1, delayMs: 1000 })
    const errors = lines.filter(({ level }) => level === 'error')
    expect(errors.length).toBeGreaterThan(0)
    for (const { fields } of errors) expect(fields).toMatchObject({ ...about, attempt: 2 })
    const message = 'The step "pay" failed in attempt 2: Error: it is broken'
    const found = await engine.flows.inspect(flow.id)
    expect(found).toMatchObject({
      error: { code: 'handler.failed', message, details: { step: 'pay', attempt: 2 } },
      steps: expect.arrayContaining([expect.objectContaining({ name: 'pay', state: 'failed', attempt: 2 })]) as unknown,
    })
    expect((await engine.flows.explain(flow.id))?.words).toContain(message)
    for (const events of heard)
      expect(events).toMatchObject([
        { id: flow.id, step: 'pay', attempt: 2, error: { code: 'handler.failed', message } },
      ])
  })

  test('that was lost with its process is named with the attempt', async () => {
    const w = new FlowsHarness(store)
    const door = workflow('w', numbered, {
      run: (_, flow) =>
        flow.step(
          'pay',
          { retry: { attempts: 1 }, limits: [limit('api', '100/s')] },
          () => new Promise(() => undefined),
        ),
    })
    const lines: Record<string, unknown>[] = []
    const error = (fields: object): void => void lines.push({ ...fields })
    const logger = { debug: () => undefined, info: () => undefined, warn: error, error }
    const { store: mortal, kill } = await mortalStore(w.url, w.clock, {
      when: 'before',
      call: 'settle',
      fits: () => false,
    })
    const victim = await w.start({ store: mortal, workflows: [door], lease: '10s' })
    const flow = await door.start({ n: 1 })
    await w.clock.advance('1s')
    kill()
    await w.stop(victim)
    const events = await failures(await w.start({ logger }), true)
    await w.clock.advance('30s')
    expect(lines).toMatchObject([
      { job: flow.id, step: 'pay', attempt: 1 },
      { job: flow.id, step: 'pay', attempt: 1 },
    ])
    expect(String(lines[1]?.['err'])).toContain('in the step pay')
    expect(events).toMatchObject([{ step: 'pay', attempt: 1, error: { code: 'lease.lost' } }])
  })
})

/** The failed flows that an engine hears of. */
async function failures(engine: Sluice, fleet: boolean): Promise<unknown[]> {
  const events: unknown[] = []
  const hear = (event: unknown): void => void events.push(event)
  if (fleet) await engine.on('flow.failed', hear, { fleet: true }).ready
  else engine.on('flow.failed', hear)
  return events
}
