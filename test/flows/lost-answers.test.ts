// Moves of flows that PostgreSQL wrote, and whose answer never came.
import { expect, onTestFinished, test } from 'vitest'
import { input, silentLogger, Sluice } from '../../src/exports/index.ts'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'

const postgres = await onPostgres('moves whose answer is lost')
const numbered = input<{ n: number }>()

/** Each door with two steps, which note their starts. */
const DOORS = [
  [
    'workflow',
    (note: (step: string) => void) =>
      workflow('cut', numbered, {
        run: async ({ n }, flow) => {
          const a = await flow.step('a', () => (note('a'), n))
          return a + (await flow.step('b', () => (note('b'), 1)))
        },
      }),
  ],
  [
    'machine',
    (note: (step: string) => void) =>
      machine('cut', {
        states: { a: numbered, b: numbered },
        first: 'a',
        result: input<number>(),
        run: {
          a: ({ n }, to) => (note('a'), to.next('b', { n: n + 1 })),
          b: ({ n }, to) => (note('b'), to.done(n)),
        },
      }),
  ],
  [
    'graph',
    (note: (step: string) => void) =>
      graph('cut', numbered)
        .step('a', ({ input: { n } }) => (note('a'), n))
        .after('a')
        .step('b', ({ a }) => (note('b'), a + 1))
        .output(({ b }) => b),
  ],
] as const

test.skipIf(!postgres).each(DOORS)(
  'a move of a %s counts once when the connection is cut after it was written',
  async (_, define) => {
    const proxy = await PostgresProxy.before(postgres!.create())
    const starts: string[] = []
    const cut = define((step) => starts.push(step))
    const engine = new Sluice({ store: proxy.url, tasks: [], workflows: [cut], logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    const events = record(engine, 'job.lease_lost', 'job.recovered', 'step.completed')
    await engine.start()
    let wrote = false
    let cuts = 0
    proxy.losesAnswerTo = (sent, answered) => {
      // A move is a statement by itself, or steps that a COMMIT follows.
      const isAlone = /\.(go_on|stay_or_end)\(/.test(sent) && answered.includes('SELECT 1')
      wrote ||= sent.includes('INSERT INTO') && sent.includes('flow_steps')
      if (!isAlone && (!wrote || !answered.includes('COMMIT'))) return false
      cuts++
      return true
    }
    const flow = await cut.start({ n: 1 })
    expect(await flow.result({ timeout: '60s' })).toBe(2)
    expect(cuts).toBe(1)
    expect(starts).toEqual(['a', 'b'])
    expect(events.map(({ name, event }) => [name, 'step' in event ? event.step : ''])).toEqual([
      ['step.completed', 'a'],
      ['step.completed', 'b'],
    ])
    const { steps } = (await engine.flows.inspect(flow.id))!
    expect(steps.map(({ name, state, attempt }) => [name, state, attempt])).toEqual([
      ['a', 'done', 1],
      ['b', 'done', 1],
    ])
  },
)

test.skipIf(!postgres).each([
  ['start_workflows', 'SELECT '],
  ['stay_or_end', 'SELECT '],
  // The answer has the news of flows that have ended.
  ['stay_or_end', '"workflow"'],
])(
  'many flows start and end once, and are told so, when the connection is cut after a %s was written that answers %s',
  async (called, answer) => {
    const proxy = await PostgresProxy.before(postgres!.create())
    const starts: number[] = []
    const once = workflow('once', numbered, {
      run: ({ n }, flow) => flow.step('a', () => (starts.push(n), n)),
    })
    const engine = new Sluice({ store: proxy.url, tasks: [], workflows: [once], logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    const events = record(engine, 'flow.completed')
    await engine.start()
    await (await once.start({ n: -1 })).result({ timeout: '60s' })
    let cuts = 0
    proxy.losesAnswerTo = (sent, answered) => {
      const isWritten = sent.includes(`.${called}(`) && answered.includes(answer)
      if (isWritten) cuts++
      return isWritten && cuts === 1
    }
    const inputs = Array.from({ length: 20 }, (_, n) => n)
    const flows = await Promise.all(inputs.map((n) => once.start({ n })))
    expect(await Promise.all(flows.map((flow) => flow.result({ timeout: '60s' })))).toEqual(inputs)
    expect(cuts).toBeGreaterThan(0)
    expect(starts.toSorted((a, b) => a - b)).toEqual([-1, ...inputs])
    const ids = (await engine.flows.list()).map(({ id }) => id)
    expect(ids).toHaveLength(21)
    // A caller may have its result a moment before the end of its flow is told.
    await expect.poll(() => events.length).toBe(21)
    expect(new Set(events.map(({ event }) => 'id' in event && event.id))).toEqual(new Set(ids))
  },
)
