// A change of a flow in one process reaches the runs, callers and listeners of all others at once.
import { describe, expect, test } from 'vitest'
import { input, type Sluice } from '../../src/exports/index.ts'
import { graph, type StepContext, workflow } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()

describe.each(STORES)('flows on $name', (store) => {
  /** Runs until its signal aborts. */
  const lasting =
    (w: FlowsHarness, name: string) =>
    ({ signal }: StepContext): Promise<never> =>
      new Promise((_, reject) => {
        w.note(`${name} runs`)
        signal.addEventListener('abort', () => {
          w.note(`${name} is aborted`)
          reject(new Error('aborted'))
        })
      })

  test('that fail end the steps that run beside, in any process and long before the next heartbeat', async () => {
    const w = new FlowsHarness(store)
    const define = () =>
      workflow('failing', numbered, {
        run: async (_, flow) => {
          await Promise.all([
            flow.step('here', { queue: 'here' }, lasting(w, 'here')),
            flow.step('there', { queue: 'there' }, lasting(w, 'there')),
            flow.sleep('a while', '2s').then(() => Promise.reject(new Error('bad'))),
          ])
        },
      })
    const door = define()
    await w.start({ workflows: [door], queues: ['default', 'here'] })
    await w.start({ workflows: [define()], queues: ['there'] })
    const starter = w.create({ workflows: [door] })
    const flow = await door.start({ n: 1 })
    await w.clock.advance('4s')
    expect((await starter.flows.get(flow.id))?.state).toBe('failed')
    expect(w.of('here runs', 'there runs')).toHaveLength(2)
    const [first, second] = w.of('here is aborted', 'there is aborted')
    expect(first).toBeLessThan(2.2)
    expect(second).toBeLessThan(2.2)
  })

  test('whose step is dropped end it at once', async () => {
    const w = new FlowsHarness(store)
    const door = graph('fast', numbered, { onFailure: 'fast' })
      .step('long', { queue: 'other' }, (_, step) => lasting(w, 'long')(step))
      .sleep('pause', '2s')
      .after('pause')
      .step('bad', { retry: { attempts: 1 } }, () => Promise.reject(new Error('bad')))
      .output(() => null)
    await w.start({ workflows: [door], queues: ['default', 'other'] })
    await door.start({ n: 1 })
    await w.clock.advance('2.1s')
    // PostgreSQL tells its processes in real time.
    await expect.poll(() => w.of('long is aborted')).toHaveLength(1)
    expect(w.of('long is aborted')[0]).toBeLessThan(2.2)
    await w.clock.advance('2s')
  })

  test('that are cancelled with their parent are told where it is cancelled, and callers learn it', async () => {
    const w = new FlowsHarness(store)
    const leaf = workflow('leaf', numbered, {
      signals: { go: numbered },
      run: async (_, flow) => void (await flow.signal('go')),
    })
    const middle = workflow('middle', numbered, { run: (given, flow) => flow.child('leaf', leaf, given) })
    const top = workflow('top', numbered, { run: (given, flow) => flow.child('middle', middle, given) })
    const engine = await w.start({ workflows: [top, middle, leaf] })
    const other = w.create({})
    const flow = await top.start({ n: 1 })
    await w.clock.advance('1s')
    const events = record(other, 'flow.cancelled')
    const ends = await Promise.all(
      ['top', 'middle', 'leaf'].map(async (name) =>
        resultOf(other, (await engine.flows.list({ workflow: name }))[0]?.id),
      ),
    )
    expect(await other.flows.cancel(flow.id)).toBe(true)
    expect(events.map(({ event }) => event.name)).toEqual(['leaf', 'middle', 'top'])
    await w.clock.advance(0)
    expect(ends.map(({ code }) => code)).toEqual(['job.cancelled', 'job.cancelled', 'job.cancelled'])
  })
})

/** How the result of a flow's job ends; empty until then. */
function resultOf(engine: Sluice, id = ''): { code?: string } {
  const end: { code?: string } = {}
  engine.jobs.result(id).catch((error: { code: string }) => (end.code = error.code))
  return end
}
