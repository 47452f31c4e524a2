// Flows that wait for a signal cost no other flow anything.
import { expect, onTestFinished, test } from 'vitest'
import { input, silentLogger, Sluice } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import { everyStore } from '../stores.ts'

const PARKED = Number(process.env['PARKED_FLOWS'] ?? 100_000)
const AT_ONCE = 1000
const MEASURED = 400
const SIGNALS = 200

test.each(await everyStore('parked flows'))(
  `${PARKED} flows that wait for a signal on $name cost a start at most 1.3 times an empty store, and a signal wakes its flow at once`,
  async (store) => {
    const waits = workflow('waits', input<{ n: number }>(), {
      signals: { go: input<number>() },
      run: (_input, flow) => flow.signal('go'),
    })
    const quick = workflow('quick', input<{ n: number }>(), { run: ({ n }, flow) => flow.step('s', () => n) })
    const sluice = new Sluice({
      store: store.create(),
      tasks: [],
      workflows: [waits, quick],
      queues: { default: { concurrency: 100 } },
      logger: silentLogger,
    })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    const medianMs = async (): Promise<number> => {
      const times: number[] = []
      for (let n = 0; n < MEASURED; n++) {
        const fromMs = performance.now()
        await (await quick.start({ n })).result()
        times.push(performance.now() - fromMs)
      }
      return times.toSorted((a, b) => a - b)[MEASURED >> 1] ?? 0
    }
    await medianMs()
    const empty = await medianMs()
    const ids: string[] = []
    for (let from = 0; from < PARKED; from += AT_ONCE) {
      const flows = await waits.startMany(Array.from({ length: AT_ONCE }, (_, n) => ({ n: from + n })))
      ids.push(...flows.map(({ id }) => id))
    }
    await expect
      .poll(async () => (await sluice.jobs.list({ states: ['available', 'active'], limit: 1 })).length, {
        timeout: 900_000,
        interval: 500,
      })
      .toBe(0)
    const full = await medianMs()
    const woken: number[] = []
    for (let n = 0; n < SIGNALS; n++) {
      const id = ids[(n * 7919) % ids.length] ?? ''
      const fromMs = performance.now()
      await waits.signal(id, 'go', n)
      expect(await sluice.jobs.result(id)).toBe(n)
      woken.push(performance.now() - fromMs)
    }
    woken.sort((a, b) => a - b)
    console.log(store.name, {
      empty,
      full,
      ratio: full / empty,
      wokenP50: woken[SIGNALS >> 1],
      wokenP99: woken[SIGNALS - 2],
    })
    expect(full / empty).toBeLessThanOrEqual(1.3)
  },
)
