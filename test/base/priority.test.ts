// One rule about priorities, wherever one is given.
import { expect, test } from 'vitest'
import { readGraph } from '../../src/flows/graph/read-graph.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'

const EXPECTED = 'Expected a whole number from -100 to 100.'

test.each([101, -101, 0.5, '5', Number.NaN, null])('%j is refused at every door with the same words', async (given) => {
  const crm = limit('crm', { rate: 1, per: '1m' })
  const limiter = createLimiter({ backend: 'memory:', limits: [crm] })
  const work = task('work', input<null>(), { run: () => undefined })
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [work], logger: silentLogger })
  const priority = given as never
  const refusals = await Promise.all(
    [
      async () => limiter.acquire([crm], { priority }),
      () => limiter.reserve([crm], { priority, atMost: '1m' }),
      () => work.enqueue(null, { priority }),
    ].map((call) => call().then(String, (error: unknown) => error as { code: string; message: string })),
  )
  const { faults } = readGraph({ name: 'g', steps: { a: { task: 'work', priority } } }, {})
  for (const { code, message } of [...refusals, ...faults] as { code: string; message: string }[]) {
    expect([code, message.slice(-EXPECTED.length)]).toEqual(['priority.invalid', EXPECTED])
  }
  expect(faults).toHaveLength(1)
  await limiter.close()
  await engine.stop()
})
