// Measures how eight processes share one key of 1,000/s, and whether the number of keys with a backlog matters.
//
//   npx node bench/hot-key.ts [--store postgres://…] [--processes 8] [--seconds 10] [--keys 100000]
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { input, limit, type Policy, Sluice, task } from '../src/exports/index.ts'
import type { HotKeyNews, HotKeyOrder } from './hot-key-worker.ts'
import { measure, type Numbers, nowMs } from './measure.ts'
import { dropSchema } from './postgres-statistics.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: '' },
    processes: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '10' },
    keys: { type: 'string', default: '100000' },
  },
})
const PER_SECOND = 1000
const PROCESSES = Number(values.processes)
const SECONDS = Number(values.seconds)
const KEYS = Number(values.keys)

interface Fleet {
  /** Decisions so far: store clock in µs, jobs. */
  readonly decisions: [number, number][]
  readonly errors: string[]
  readonly started: () => number
  readonly go: () => void
  readonly stop: () => Promise<void>
}

async function fleet(order: HotKeyOrder): Promise<Fleet> {
  const decisions: [number, number][] = []
  const errors: string[] = []
  let started = 0
  const children = Array.from({ length: PROCESSES }, () =>
    fork(join(import.meta.dirname, 'hot-key-worker.ts'), [JSON.stringify(order)], { execArgv: [] }),
  )
  const ready = (child: ChildProcess): Promise<void> =>
    new Promise((resolve) => {
      child.on('message', (news: HotKeyNews) => {
        if (news.kind === 'ready') resolve()
        else if (news.kind === 'error') errors.push(news.message)
        else
          for (const [nowUs, jobs] of news.decisions) {
            decisions.push([nowUs, jobs])
            started += jobs
          }
      })
    })
  await Promise.all(children.map(ready))
  return {
    decisions,
    errors,
    started: () => started,
    go: () => children.forEach((child) => child.send('go')),
    async stop() {
      await Promise.all(
        children.map(async (child) => {
          const exited = once(child, 'exit')
          child.send('stop')
          await exited
        }),
      )
    },
  }
}

async function withBacklog(
  url: string,
  policy: Policy,
  keys: number,
  jobs: number,
  ask: (all: Fleet) => Promise<Numbers>,
): Promise<Numbers> {
  if (url.startsWith('postgres')) await dropSchema(url)
  const hot = task('bench.hot', input<{ key: string }>(), {
    limits: [limit('hot', policy).by((job) => job.key)],
    run: () => undefined,
  })
  const engine = new Sluice({ store: url, tasks: [hot] })
  for (let n = 0; n < jobs; n += 1000)
    await hot.enqueueMany(Array.from({ length: Math.min(1000, jobs - n) }, (_, i) => ({ key: `k${(n + i) % keys}` })))
  const all = await fleet({ url, policy, concurrency: 50 })
  try {
    all.go()
    return await ask(all)
  } finally {
    await all.stop()
    await engine.stop()
    if (url.startsWith('postgres')) await dropSchema(url)
    for (const error of all.errors) console.error(error)
  }
}

async function oneKey(url: string, policy: Policy, name: string): Promise<Numbers> {
  return withBacklog(url, policy, 1, PER_SECOND * (SECONDS + 6), async (all) => {
    while (all.started() === 0) await sleep(10)
    await sleep((SECONDS + 3) * 1000)
    const sorted = [...all.decisions].sort((a, b) => a[0] - b[0])
    // From one second after the first start, when a full budget has been spent.
    const fromUs = (sorted[0]?.[0] ?? 0) + 1e6
    const used = sorted.filter(([atUs]) => atUs >= fromUs && atUs < fromUs + SECONDS * 1e6)
    return {
      [`${name}: budget used, %`]: (100 * used.reduce((sum, [, jobs]) => sum + jobs, 0)) / (PER_SECOND * SECONDS),
      [`${name}: most in any second, % of the budget`]: (100 * mostWithin(sorted, 1e6)) / PER_SECOND,
      [`${name}: errors`]: all.errors.length,
    }
  })
}

/** The most jobs that any half-open interval of that length holds. */
function mostWithin(sorted: readonly (readonly [number, number])[], lengthUs: number): number {
  let [most, jobs, first] = [0, 0, 0]
  for (const [atUs, count] of sorted) {
    jobs += count
    while ((sorted[first]?.[0] ?? atUs) <= atUs - lengthUs) jobs -= sorted[first++]?.[1] ?? 0
    most = Math.max(most, jobs)
  }
  return most
}

/** Each key has one start and a job that waits for a year, so every start is a lane of its own. */
async function manyKeys(url: string, keys: number): Promise<number> {
  let perSecond = 0
  await withBacklog(url, { rate: 1, per: '365d' }, keys, 2 * keys, async (all) => {
    while (all.started() === 0) await sleep(1)
    const startMs = nowMs()
    while (all.started() < keys) await sleep(5)
    perSecond = keys / ((nowMs() - startMs) / 1000)
    return {}
  })
  return perSecond
}

await measure(
  `${PROCESSES} processes: one key of ${PER_SECOND}/s, and ${KEYS.toLocaleString('en')} keys`,
  async (path) => {
    const url = values.store === '' ? `sqlite:${path}` : values.store
    const at = (part: string): string => (values.store === '' ? `${url}-${part}` : url)
    const window = await oneKey(at('window'), { window: 'sliding', max: PER_SECOND, per: '1s' }, 'sliding window')
    const bucket = await oneKey(at('rate'), { rate: PER_SECOND, per: '1s', burst: 100 }, 'rate, burst 100')
    const few = await manyKeys(at('few'), KEYS / 10)
    const many = await manyKeys(at('many'), KEYS)
    return {
      ...window,
      ...bucket,
      [`starts/s, ${(KEYS / 10).toLocaleString('en')} keys with a backlog`]: few,
      [`starts/s, ${KEYS.toLocaleString('en')} keys with a backlog`]: many,
      'many keys to few': many / few,
    }
  },
)
