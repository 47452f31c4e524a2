// Measures 10,000 tenants under a global 1,000/s in virtual time: the delivered rate, and the lanes examined per start.
import { createManualClock } from '../src/exports/testing.ts'
import { normalisePolicy } from '../src/policy/limits/normalise.ts'
import { createStore } from '../src/store/open.ts'
import { measure } from './measure.ts'

const RETENTION = { completedUs: 1e12, cancelledUs: 1e12, discardedUs: 1e12 }
const PER_SECOND = 1000
const JOBS = 20_000

interface Delivery {
  readonly delivered: number
  readonly looks: number
}

/** @param near the tenants' own limits are near their bounds too, or never bite. */
async function deliver(path: string, tenants: number, near: boolean): Promise<Delivery> {
  const clock = createManualClock()
  const store = await createStore(`sqlite:${path}`, { clock, durability: 'process', retention: RETENTION })
  await store.open()
  const perTenant = near ? { rate: 1, per: tenants, burst: 1 } : { rate: PER_SECOND, per: '1s' as const }
  await store.define([
    { name: 'global', policy: normalisePolicy({ rate: PER_SECOND, per: '1s', burst: 1 }, 'global'), version: 0 },
    { name: 'tenant', policy: normalisePolicy(perTenant, 'tenant'), version: 0 },
  ])
  const worker = await store.join(['default'], 1e12)
  const jobs = Array.from({ length: Math.max(JOBS, 2 * tenants) }, (_, n) => ({
    id: `job-${n}`,
    task: 'call',
    queue: 'default',
    priority: 0,
    input: 'null',
    maxAttempts: 1,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: null,
    uses: [
      { limit: 'global', key: '', weight: 1 },
      { limit: 'tenant', key: `t${n % tenants}`, weight: 1 },
    ],
  }))
  await store.enqueue(jobs)
  let looks = 0
  let starts = 0
  let firstUs = 0
  let lastUs = 0
  while (starts < jobs.length) {
    const claim = await store.claim(() => ({
      worker,
      leaseUs: 1e12,
      queues: [{ queue: 'default', slots: 100, uses: [] }],
    }))
    looks += claim.looks
    if (claim.jobs.length > 0) {
      if (starts === 0) firstUs = claim.nowUs
      lastUs = claim.nowUs
    }
    starts += claim.jobs.length
    for (const job of claim.jobs)
      void store.settle(worker, { kind: 'complete', seq: job.seq, attempt: job.attempt, result: null })
    if (claim.nextWakeUs !== null) await clock.advance(Math.max(0, (claim.nextWakeUs - store.nowUs()) / 1000))
  }
  await store.close()
  return { delivered: (100 * (starts - 1) * 1e6) / ((lastUs - firstUs) * PER_SECOND), looks: looks / starts }
}

await measure(`Tenants under a global ${PER_SECOND}/s`, async (path) => {
  const numbers: Record<string, number> = {}
  for (const near of [false, true])
    for (const tenants of [100, 1000, 10_000]) {
      const { delivered, looks } = await deliver(`${path}-${tenants}-${near}`, tenants, near)
      const who = `${tenants} tenants${near ? ' near their bounds' : ''}`
      numbers[`${who}: % of rate`] = delivered
      numbers[`${who}: looks per start`] = looks
    }
  return numbers
})
