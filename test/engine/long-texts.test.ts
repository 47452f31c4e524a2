// A message shows the beginning of what was given, however long that is: a log line has a bound.
import { expect, onTestFinished, test } from 'vitest'
import { graphFromJson } from '../../src/exports/flows.ts'
import { limit, silentLogger, Sluice } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'

const LONG = 'x'.repeat(50_000)
const MOST = 1000

const memory = () => createLimiter({ backend: 'memory:', limits: [limit('a', '1/s')] })

const CALLS: readonly (readonly [string, (engine: Sluice) => unknown])[] = [
  ['an event', (engine) => engine.on(LONG as never, () => undefined)],
  ['a field of a policy', () => limit('a', { rate: 1, per: '1s', [LONG]: 1 } as never)],
  ['the id of a job to explain', (engine) => engine.jobs.explain(LONG)],
  ['the id of a job to cancel', (engine) => engine.jobs.cancel(LONG)],
  ['the id of a job to retry', (engine) => engine.jobs.retry(LONG)],
  ['a limit to look at', (engine) => engine.limits.inspect(LONG)],
  ['a limit to penalize', (engine) => engine.limits.penalize(LONG, undefined, '1s')],
  ['a limit to forecast', (engine) => engine.forecast(LONG)],
  ['a flow to cancel', (engine) => engine.flows.cancel(LONG)],
  ['a store', () => new Sluice({ store: LONG, tasks: [] })],
  ['a backend of budgets', () => new Sluice({ store: 'sqlite::memory:', tasks: [], budgets: { a: LONG } })],
  ['a backend of a limiter', () => createLimiter({ backend: LONG, limits: [] })],
  ['a limit that a backend lacks', () => memory().override(LONG, '1/s')],
  ['a job whose result is asked', (engine) => engine.jobs.result(LONG)],
  ['a limit to pause', (engine) => engine.limits.pause(LONG)],
  ['a limit to change', (engine) => engine.limits.override(LONG, undefined, LONG)],
  ['the path of a key', () => limit('a', '1/s').by(`${LONG}..`)],
  ['a field of a graph', () => graphFromJson(JSON.stringify({ name: 'a', [LONG]: 1 }))],
  ['a step of a graph', () => graphFromJson({ name: 'a', steps: { [LONG]: { task: 'a', after: ['b'] } } })],
  ['a limit of a fail mode', () => createLimiter({ backend: 'memory:', limits: [], failMode: { [LONG]: 'open' } })],
]

test.each(CALLS)('%s of 50,000 characters is refused in a short message', async (_, call) => {
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [], logger: silentLogger })
  onTestFinished(() => engine.stop())
  const refused = await Promise.resolve(engine)
    .then(call)
    .then(
      () => null,
      (error: unknown) => error,
    )
  expect(refused).toBeInstanceOf(Error)
  expect((refused as Error).message.length).toBeLessThan(MOST)
  expect((refused as Error).message).toContain('xxx')
})
