// Times every list of the monitor beside a large store: the first answer and 95 of 100, by path, and what an answer takes of the processor.
// JOBS (1,000,000), KEYS (100,000), ROUNDS (20), STORE (a SQLite file in BENCH_DIR; else postgres://…); FILLED=1: it is filled.
// Its CPU column counts this process, so on PostgreSQL not the server.
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMonitor, type MonitorCall } from './monitor-client.ts'
import { input, limit, silentLogger, Sluice, task } from '../src/exports/index.ts'
import { nowMs, quantile } from './measure.ts'

const JOBS = Number(process.env['JOBS'] ?? 1_000_000)
const KEYS = Number(process.env['KEYS'] ?? 100_000)
const ROUNDS = Number(process.env['ROUNDS'] ?? 20)
const BATCH = 1000

interface Item {
  readonly key: number
  readonly customer: string
}

const folder = mkdtempSync(join(process.env['BENCH_DIR'] ?? tmpdir(), 'sluice-lists-'))
let left = KEYS
let finish = (): void => undefined
const started = new Promise<void>((resolve) => (finish = resolve))
const crm = limit('crm', { rate: 1, per: '1h' })
const queues = { default: {}, mail: {}, reports: {} }
const work = ['tenant.sync', 'mail.send', 'report.make'].map((name, at) =>
  task(name, input<Item>(), {
    queue: Object.keys(queues)[at] as string,
    limits: [crm.by(({ key }) => key)],
    run: () => void (--left === 0 && finish()),
  }),
)
const store = process.env['STORE'] ?? `sqlite:${join(folder, 'jobs.db')}`
const sluice = new Sluice({ store, tasks: work, queues, durability: 'process', logger: silentLogger })
const before = nowMs()
const isFilled = process.env['FILLED'] === '1'
const missing = isFilled ? 0 : JOBS
for (let made = 0; made < missing; made += BATCH)
  await work[(made / BATCH) % work.length]?.enqueueMany(
    Array.from({ length: BATCH }, (_, i) => ({ key: (made + i) % KEYS, customer: `customer-${made + i}` })),
    { tags: [made % 50_000 === 0 ? 'rare' : 'common'] },
  )
console.log(`${missing.toLocaleString('en')} jobs stored in ${((nowMs() - before) / 1000).toFixed(0)} s`)
// One job of each key starts; the others wait for an hour. By then every job is in its lane.
if (!isFilled) {
  await sluice.start()
  await started
}
const jobs = await sluice.jobs.list({ states: ['available'], limit: 1 })
const monitor = createMonitor(sluice)
const PATHS = [
  '/overview',
  '/limits',
  '/limits/crm',
  '/limits/crm/keys',
  '/limits/crm/keys?sort=key',
  '/limits/crm/keys?sort=next',
  '/limits/crm/keys?sort=used',
  '/limits/crm/keys/77',
  '/jobs',
  '/jobs?state=available',
  '/jobs?state=active',
  '/jobs?state=completed',
  '/jobs?state=discarded',
  '/jobs?queue=mail',
  '/jobs?task=report.make',
  '/jobs?tag=rare',
  '/jobs?limit=crm&key=77',
  '/jobs?q=customer-77',
  '/jobs?q=nothing-has-this',
  `/jobs/${jobs[0]?.id}`,
  `/jobs/${jobs[0]?.id}/explain`,
  '/jobs/count?queue=mail',
  '/queues',
  '/schedules',
  '/flows',
  '/workers',
  '/tasks',
  '/bulk',
  '/audit',
  '/series?metric=started',
]
console.log('path'.padEnd(52), 'first ms   p95 ms   longest   CPU ms')
for (const path of PATHS) {
  const calls: MonitorCall[] = []
  for (let round = 0; round < ROUNDS; round++) calls.push(await monitor.get(path))
  const took = calls.map(({ ms }) => ms)
  const spent = calls.map(({ cpuMs }) => cpuMs)
  const figures = [took[0] ?? 0, quantile(took, 0.95), Math.max(...took), quantile(spent, 0.5)].map((each) =>
    each.toFixed(1).padStart(8),
  )
  console.log(
    path.replace(/[0-9a-f-]{36}/, ':id').padEnd(50),
    ...figures,
    calls.find(({ status }) => status >= 300)?.status ?? '',
  )
}
console.log(`load ${loadavg()[0]?.toFixed(1)}`)
monitor.close()
await sluice.stop({ within: 0 })
rmSync(folder, { recursive: true, force: true })
