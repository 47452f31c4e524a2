// Measures how many claimers of one queue get in each other's way on PostgreSQL, by stripes: jobs and claims per second,
// how long a claim holds its stripe's lock and waits for it, and the processor time of both sides.
//
//   npx node bench/claimers.ts [--claimers 1,2,4,8] [--stripes 1,8] [--jobs 40000] [--slots 100] [--keys 1000]
//
// It starts a PostgreSQL of its own. Times of the lock are by Little's law: a connection looks every few ms how many
// claims hold or await a lock, which divided by the claims per second is the time of each.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, Pool } from 'pg'
import { input, limit, Sluice, task, type Task } from '../src/exports/index.ts'
import { createPostgresStore } from '../src/exports/postgres.ts'
import { PostgresCluster } from '../test/postgres-cluster.ts'
import { inSchema } from '../test/services.ts'
import { nowMs } from './measure.ts'
import { connect, dropSchema } from './postgres-statistics.ts'

interface Keyed {
  readonly key: string
}

/** The settings of a claimer. */
interface Order {
  readonly url: string
  readonly slots: number
}

/** The work of a claimer so far. */
interface Report {
  readonly ran: number
  readonly claims: number
  readonly queries: number
  readonly cpuMs: number
}

const SCHEMA = 'sluice_claimers'
const LOOK_EVERY_MS = 3
const TICK_MS = 1000 / 100

function keyedTask(run: () => void): Task<Keyed, Keyed, void> {
  const roomy = limit('roomy', { rate: 1_000_000, per: '1s' })
  return task('bench.keyed', input<Keyed>(), { limits: [roomy.by(({ key }) => key)], run })
}

if (process.send) await beClaimer(JSON.parse(process.argv[2] ?? '{}') as Order)
else await measureAll()

async function measureAll(): Promise<void> {
  const { values } = parseArgs({
    options: {
      claimers: { type: 'string', default: '1,2,4,8' },
      stripes: { type: 'string', default: '1,8' },
      jobs: { type: 'string', default: '40000' },
      slots: { type: 'string', default: '100' },
      keys: { type: 'string', default: '1000' },
    },
  })
  const [jobs, slots, keys] = [Number(values.jobs), Number(values.slots), Number(values.keys)]
  const cluster = await PostgresCluster.create()
  const url = inSchema(cluster.url, SCHEMA)
  console.log(`${jobs} jobs of ${keys} keys, ${slots} slots a claimer; times in ms a claim`)
  console.log('| stripes | claimers | jobs/s | claims/s | jobs a claim | queries | holds | waits | server | client |')
  console.log('| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
  try {
    for (const stripes of values.stripes.split(',').map(Number))
      for (const claimers of values.claimers.split(',').map(Number)) {
        const cells = await measureOne(url, { stripes, claimers, jobs, slots, keys })
        console.log(`| ${[stripes, claimers, ...cells].join(' | ')} |`)
      }
  } finally {
    await cluster.remove()
  }
}

interface Case {
  readonly stripes: number
  readonly claimers: number
  readonly jobs: number
  readonly slots: number
  readonly keys: number
}

async function measureOne(url: string, { stripes, claimers, jobs, slots, keys }: Case): Promise<string[]> {
  await dropSchema(url)
  const keyed = keyedTask(() => undefined)
  const producer = new Sluice({ store: url, tasks: [keyed], queues: { default: { concurrency: 0, stripes } } })
  for (let n = 0; n < jobs; n += 1000)
    await keyed.enqueueMany(Array.from({ length: 1000 }, (_, i) => ({ key: `k${(n + i) % keys}` })))
  await producer.stop()
  const children = await Promise.all(Array.from({ length: claimers }, () => claimer({ url, slots })))
  const sampler = await connect(url)
  const reports: Report[] = []
  for (const [i, child] of children.entries()) child.on('message', (report: Report) => (reports[i] = report))
  const sum = (of: keyof Report): number => reports.reduce((all, report) => all + report[of], 0)
  for (const child of children) child.send('go')
  // The first tenth is a warm-up.
  while (sum('ran') < jobs / 10) await sleep(TICK_MS)
  const [startMs, ran, claims, queries, cpuMs] = [nowMs(), sum('ran'), sum('claims'), sum('queries'), sum('cpuMs')]
  const serverMs = await serverCpuMs(sampler)
  const [held, awaited]: [number[], number[]] = [[], []]
  while (sum('ran') < jobs * 0.9) {
    const { rows } = await sampler.query<{ held: string; awaited: string }>(
      `SELECT count(*) FILTER (WHERE granted) AS held, count(*) FILTER (WHERE NOT granted) AS awaited FROM pg_locks
       WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND classid = (hashtext('"${SCHEMA}".')::bigint & 4294967295)::oid`,
    )
    held.push(Number(rows[0]?.held))
    awaited.push(Number(rows[0]?.awaited))
    await sleep(LOOK_EVERY_MS)
  }
  const seconds = (nowMs() - startMs) / 1000
  const done = sum('claims') - claims
  const mean = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0) / all.length
  const aClaim = (perSecond: number): string => ((perSecond * seconds * 1000) / done).toFixed(2)
  const cells = [
    Math.round((sum('ran') - ran) / seconds).toString(),
    Math.round(done / seconds).toString(),
    ((sum('ran') - ran) / done).toFixed(0),
    ((sum('queries') - queries) / done).toFixed(1),
    aClaim(mean(held)),
    aClaim(mean(awaited)),
    (((await serverCpuMs(sampler)) - serverMs) / done).toFixed(2),
    ((sum('cpuMs') - cpuMs) / done).toFixed(2),
  ]
  await sampler.end()
  for (const child of children) {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
  return cells
}

/** The processor time of the server's other connections, ms. */
async function serverCpuMs(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>(
    'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL',
  )
  return rows.reduce((all, { pid }) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return all + (Number(fields[11]) + Number(fields[12])) * 10
  }, 0)
}

async function claimer(order: Order): Promise<ChildProcess> {
  const child = fork(import.meta.filename, [JSON.stringify(order)], { execArgv: [] })
  await once(child, 'message')
  return child
}

/** A process that claims, and counts its claims with starts and its queries. */
async function beClaimer({ url, slots }: Order): Promise<void> {
  let [ran, claims, queries] = [0, 0, 0]
  const bare = new URL(url)
  bare.searchParams.delete('schema')
  const pool = new Pool({ connectionString: bare.toString(), max: 8 })
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((...args: unknown[]) => {
      queries++
      return query(...args)
    }) as typeof client.query
  })
  const store = createPostgresStore({ pool, schema: SCHEMA })
  const claim = store.claim.bind(store)
  store.claim = async (ask) => {
    const answer = await claim(ask)
    if (answer.jobs.length > 0) claims++
    return answer
  }
  const engine = new Sluice({
    store,
    tasks: [keyedTask(() => void ran++)],
    queues: { default: { concurrency: slots } },
  })
  setInterval(() => {
    const { user, system } = process.cpuUsage()
    process.send?.({ ran, claims, queries, cpuMs: (user + system) / 1000 })
  }, TICK_MS)
  process.on('message', () => void engine.start())
  process.on('disconnect', () => process.exit(0))
  process.send?.({ ran, claims, queries, cpuMs: 0 })
}
