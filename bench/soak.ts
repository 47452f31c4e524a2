// Measures whether a store under load for half an hour stays fast and small.
//
//   npm run soak -- [--minutes 30] [--rows 0] [--history 0] [--rate 1000] [--processes 2] [--hold 60]
//       [--store sqlite | postgres://…]
//   npm run soak:full        10,000,000 finished and 1,000,000 waiting jobs for 30 minutes, on each store
//
// Without --store it creates a PostgreSQL server with default settings and removes it at the end; with `sqlite`, a file.
// A shorter soak runs autovacuum more often in proportion. It exits with code 1 if claims or pick-ups became slower, dead
// rows or tables grew, or a lane stopped behind an open transaction.
import { createHash } from 'node:crypto'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Sluice } from '../src/exports/index.ts'
import { type Churn, churnTasks, type Progress, TIGHT_KEYS, TIGHT_RATE } from './churn.ts'
import { copyFinished } from './history.ts'
import { nowMs, quantile } from './measure.ts'
import { PostgresCluster } from '../test/postgres-cluster.ts'
import { inSchema } from '../test/services.ts'
import { connect, dropSchema, PostgresStatistics } from './postgres-statistics.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    rows: { type: 'string', default: '0' },
    history: { type: 'string', default: '0' },
    rate: { type: 'string', default: '1000' },
    processes: { type: 'string', default: '2' },
    hold: { type: 'string', default: '60' },
    store: { type: 'string' },
  },
})
const [minutes, rows, history, rate] = [values.minutes, values.rows, values.history, values.rate].map(Number) as [
  number,
  number,
  number,
  number,
]
const NAPTIME_S = Math.min(60, Math.max(5, minutes * 2))
const isSqlite = values.store === 'sqlite'
const folder = isSqlite ? mkdtempSync(join(process.env['BENCH_DIR'] ?? tmpdir(), 'sluice-soak-')) : null
const cluster = values.store === undefined ? await PostgresCluster.create({ autovacuum_naptime: NAPTIME_S }) : null
const url =
  folder !== null ? `sqlite:${join(folder, 'soak.db')}` : (values.store ?? inSchema(cluster?.url ?? '', 'sluice_soak'))
const isPostgres = url.startsWith('postgres')
const totalMs = minutes * 60_000
/** A short soak, too, has time to recover from the transaction before its last third. */
const holdMs = Math.min(Number(values.hold) * 1000, totalMs / 5)
/** Thirty intervals for any length. */
const lookMs = totalMs / 30
/** Finished jobs go within the soak, so that pruning is part of it. */
const KEEP_MS = Math.min(60_000, totalMs / 6)
const CLOSED_KEYS = 10_000
/** Tables whose size depends on the retention. */
const OF_ENDED_JOBS = ['jobs', 'job_facts', 'done']
const TICK_MS = 50
const CONCURRENCY = 100

/** The measurements of one interval. */
interface Look {
  readonly atS: number
  readonly ran: number
  readonly claimP50: number
  readonly claimP99: number
  readonly settleP50: number
  readonly probeP50: number
  readonly probeP99: number
  readonly dead: number
  /** All tables except that of the jobs, whose size depends on retention. */
  readonly smallTablesMb: number
  readonly jobsMb: number
  /** The duration of a fixed piece of work, which shows how busy the machine is with other processes. */
  readonly yardstick: number
  readonly held: boolean
}

const tasks = churnTasks(() => undefined)
if (isPostgres) await dropSchema(url)
const engine = new Sluice({ store: url, tasks: Object.values(tasks) })
console.log(
  `Soak of ${cluster ? 'a PostgreSQL of its own' : url}: ${minutes} min at ${rate} jobs/s, ${values.processes} processes at concurrency ${CONCURRENCY}, ${rows.toLocaleString('en')} jobs waiting, ${history.toLocaleString('en')} finished`,
)
console.log(`node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`)

const yardsticksMs: number[] = []
const CLOTH = Buffer.alloc(256 * 1024)

function takeYardstick(): void {
  const startMs = nowMs()
  createHash('sha256').update(CLOTH).digest()
  yardsticksMs.push(nowMs() - startMs)
}

let [ran, claimsMs, settlesMs, pickUpsMs] = [0, [] as number[], [] as number[], [] as number[]]
const workers = Array.from({ length: Number(values.processes) }, () => {
  const order = JSON.stringify({ url, keepMs: KEEP_MS, concurrency: CONCURRENCY })
  const child = fork(join(import.meta.dirname, 'soak-worker.ts'), [order], { execArgv: [] })
  child.on('message', (told: Progress) => {
    ran += told.ran
    claimsMs.push(...told.claimsMs)
    settlesMs.push(...told.settlesMs)
    pickUpsMs.push(...told.pickUpsMs)
  })
  child.on('exit', (code) => {
    if (code === 0) return
    console.error(`a worker process ended with code ${code}`)
    process.exit(1)
  })
  return child
})

await fill()
const statistics = isPostgres ? await PostgresStatistics.open(url) : null
if (history > 0) {
  const { id } = await tasks.free.enqueue({ key: '' })
  while ((await engine.jobs.get(id))?.state !== 'completed') await sleep(50)
  await copyFinished(url, history)
}
const looks = await churn()
await statistics?.close()
for (const child of workers) await stop(child)
await engine.stop()
if (cluster) await cluster.remove()
else if (folder !== null) rmSync(folder, { recursive: true, force: true })
else if (isPostgres) await dropSchema(url)
process.exitCode = judge(looks) ? 0 : 1

/** Jobs that wait all the time: the first of each key starts, the others wait for a year. */
async function fill(): Promise<void> {
  for (let n = 0; n < rows; n += 1000)
    await tasks.closed.enqueueMany(
      Array.from({ length: Math.min(1000, rows - n) }, (_, i) => ({ key: `c${(n + i) % CLOSED_KEYS}` })),
    )
}

async function churn(): Promise<Look[]> {
  const seen: Look[] = []
  const beganMs = nowMs()
  let sent = 0
  let held: Promise<void> | null = null
  let holding = false
  console.log(
    '   s      jobs/s  claim p50/p99 ms  settle p50  pick-up p50/p99  dead rows  other tables MB  jobs MB  yardstick',
  )
  let lookAtMs = beganMs + lookMs
  let [lookRan, tick] = [0, 0]
  while (nowMs() < beganMs + totalMs) {
    const wanted = ((nowMs() - beganMs) / 1000) * rate
    // Behind by a second at most: a store that is too slow is shown by the rate, not by a backlog without end.
    sent = Math.max(sent, wanted - rate)
    await produce(Math.floor(wanted - sent), tick++)
    sent = Math.max(sent, Math.floor(wanted))
    if (isPostgres && !held && nowMs() > beganMs + totalMs / 3) {
      holding = true
      held = hold().finally(() => (holding = false))
    }
    if (nowMs() >= lookAtMs) {
      lookAtMs += lookMs
      seen.push(await look((nowMs() - beganMs) / 1000, ran - lookRan, holding))
      lookRan = ran
    }
    takeYardstick()
    await sleep(TICK_MS)
  }
  await held
  return seen
}

async function produce(count: number, tick: number): Promise<void> {
  const stamped = (key: string): Churn => ({ key, atUs: nowMs() * 1000 })
  const part = (task: (typeof tasks)['free'], jobs: number, keys: number): Promise<unknown> =>
    jobs < 1
      ? Promise.resolve()
      : task.enqueueMany(Array.from({ length: jobs }, (_, i) => ({ key: `k${(tick * 31 + i) % keys}` })))
  const tight = Math.min(count / 4, (TIGHT_KEYS * TIGHT_RATE * TICK_MS) / 1000)
  await Promise.all([
    part(tasks.free, Math.ceil(count / 2), 1),
    part(tasks.keyed, Math.floor(count / 2 - tight), 1000),
    part(tasks.tight, Math.floor(tight), TIGHT_KEYS),
    tasks.probe.enqueue(stamped('probe')),
  ])
}

/** A user's transaction that enqueues into the probes' lane and takes its time. */
async function hold(): Promise<void> {
  const client = await connect(url)
  await client.query('BEGIN')
  await tasks.probe.enqueue({ key: 'probe' }, { tx: client })
  await sleep(holdMs)
  await client.query('COMMIT')
  await client.end()
}

async function look(atS: number, ranNow: number, held: boolean): Promise<Look> {
  const tables = (await statistics?.tables()) ?? []
  const mb = (all: typeof tables): number => all.reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20
  const seen: Look = {
    atS,
    ran: ranNow,
    claimP50: quantile(claimsMs, 0.5),
    claimP99: quantile(claimsMs, 0.99),
    settleP50: quantile(settlesMs, 0.5),
    probeP50: quantile(pickUpsMs, 0.5),
    probeP99: quantile(pickUpsMs, 0.99),
    dead: tables.reduce((sum, { dead }) => sum + dead, 0),
    smallTablesMb: mb(tables.filter(({ table }) => !OF_ENDED_JOBS.includes(table))),
    jobsMb: isPostgres
      ? mb(tables.filter(({ table }) => OF_ENDED_JOBS.includes(table)))
      : statSync(url.slice('sqlite:'.length)).size / 2 ** 20,
    yardstick: quantile(yardsticksMs.splice(0), 0.5),
    held,
  }
  ;[claimsMs, settlesMs, pickUpsMs] = [[], [], []]
  const { claimP50, claimP99, settleP50, probeP50, probeP99, dead, smallTablesMb, jobsMb, yardstick } = seen
  const ms = (...all: number[]): string => all.map((value) => value.toFixed(1)).join('/')
  console.log(
    [
      atS.toFixed(0).padStart(4),
      ((ranNow / lookMs) * 1000).toFixed(0).padStart(11),
      ms(claimP50, claimP99).padStart(17),
      ms(settleP50).padStart(11),
      ms(probeP50, probeP99).padStart(16),
      dead.toLocaleString('en').padStart(10),
      smallTablesMb.toFixed(1).padStart(16),
      jobsMb.toFixed(0).padStart(8),
      ms(yardstick).padStart(9),
      held ? ' a transaction is open' : '',
    ].join(' '),
  )
  return seen
}

/**
 * Compares ratios only, and corrects times by the machine's other load. It compares the last third with the second
 * fifth, which is warmed up and holds no transaction.
 */
function judge(all: readonly Look[]): boolean {
  const calm = all.filter(({ held }) => !held)
  const early = calm.filter(({ atS }) => atS * 1000 > totalMs / 5 && atS * 1000 <= totalMs / 3)
  const late = calm.filter(({ atS }) => atS * 1000 > (totalMs * 2) / 3)
  const median = (of: readonly Look[], by: (each: Look) => number): number => quantile(of.map(by), 0.5)
  const most = (of: readonly Look[], by: (each: Look) => number): number => Math.max(...of.map(by))
  const verdicts: readonly [string, number, number][] = [
    [
      'claim p50, late to early',
      median(late, (l) => l.claimP50 / l.yardstick) / median(early, (l) => l.claimP50 / l.yardstick),
      2,
    ],
    [
      'pick-up p50, late to early',
      median(late, (l) => l.probeP50 / l.yardstick) / median(early, (l) => l.probeP50 / l.yardstick),
      2,
    ],
    [
      'claim p99, late to early',
      median(late, (l) => l.claimP99 / l.yardstick) / median(early, (l) => l.claimP99 / l.yardstick),
      2,
    ],
    [
      'pick-up p99, late to early',
      median(late, (l) => Math.max(5, l.probeP99) / l.yardstick) /
        median(early, (l) => Math.max(5, l.probeP99) / l.yardstick),
      2,
    ],
    ['jobs sent to jobs run, late', (rate * lookMs) / 1000 / median(late, (l) => l.ran), 1.1],
    ...(isPostgres
      ? ([
          [
            'dead rows, late to early',
            most(late, (l) => l.dead) /
              Math.max(
                10_000,
                most(early, (l) => l.dead),
              ),
            2,
          ],
          [
            'other tables, late to early',
            most(late, (l) => l.smallTablesMb) /
              Math.max(
                8,
                most(early, (l) => l.smallTablesMb),
              ),
            2,
          ],
          [
            'pick-up p99 in the lane of an open transaction, to that before',
            median(
              all.filter(({ held }) => held),
              (l) => l.probeP99,
            ) /
              Math.max(
                20,
                median(early, (l) => l.probeP99),
              ),
            5,
          ],
        ] as [string, number, number][])
      : []),
  ]
  console.log(`\n${all.reduce((sum, { ran: each }) => sum + each, 0).toLocaleString('en')} jobs`)
  for (const [what, ratio, bound] of verdicts)
    console.log(`${ratio <= bound ? 'kept  ' : 'BROKEN'} ${what}: ${ratio.toFixed(2)} (at most ${bound})`)
  return verdicts.every(([, ratio, bound]) => ratio <= bound)
}

async function stop(child: ChildProcess): Promise<void> {
  const closed = once(child, 'exit')
  child.send('stop')
  await closed
}
