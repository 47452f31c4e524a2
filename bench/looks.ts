// Counts the lanes that a claim examines per start, as tenants grow from 50 to 1,600 behind shared limits near their
// bounds.
import { createManualClock } from '../src/exports/testing.ts'
import { createStore } from '../src/store/open.ts'
import { normalisePolicy } from '../src/policy/limits/normalise.ts'
import { measure } from './measure.ts'

const RETENTION = { completedUs: 1e12, cancelledUs: 1e12, discardedUs: 1e12 }

async function looksPerStart(tenants: number, withPlan: boolean): Promise<number> {
  const clock = createManualClock()
  const store = await createStore('sqlite::memory:', { clock, durability: 'process', retention: RETENTION })
  await store.open()
  await store.define([
    { name: 'global', policy: normalisePolicy({ rate: 100, per: '1s', burst: 5 }, 'global'), version: 0 },
    { name: 'plan', policy: normalisePolicy({ rate: 25, per: '1s', burst: 3 }, 'plan'), version: 0 },
    { name: 'tenant', policy: normalisePolicy({ rate: 1, per: tenants * 5, burst: 1 }, 'tenant'), version: 0 },
  ])
  const worker = await store.join(['default'], 1e12)
  let id = 0
  for (let round = 0; round < 3; round++)
    for (let t = 0; t < tenants; t++)
      await store.enqueue([
        {
          id: `job-${++id}`,
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
            ...(withPlan ? [{ limit: 'plan', key: `p${t % 2 === 0 ? 0 : t % 5}`, weight: 1 }] : []),
            { limit: 'tenant', key: `t${t}`, weight: 1 },
          ],
        },
      ])
  let looks = 0
  let starts = 0
  for (let i = 0; i < tenants * 20 && starts < tenants * 3; i++) {
    const claim = await store.claim(() => ({
      worker,
      leaseUs: 1e12,
      queues: [{ queue: 'default', slots: 1000, uses: [] }],
    }))
    looks += claim.looks
    starts += claim.jobs.length
    for (const job of claim.jobs)
      void store.settle(worker, { kind: 'complete', seq: job.seq, attempt: job.attempt, result: null })
    if (claim.nextWakeUs !== null) await clock.advance(Math.max(0.001, (claim.nextWakeUs - store.nowUs()) / 1000))
  }
  if (starts !== tenants * 3) throw new Error(`${starts} of ${tenants * 3} jobs started`)
  await store.close()
  return looks / starts
}

await measure('Lanes looked at per start', async () => {
  const numbers: Record<string, number> = {}
  for (const withPlan of [false, true])
    for (const tenants of [50, 400, 1600])
      numbers[`global${withPlan ? ' + plan' : ''} + tenant, ${tenants} tenants`] = await looksPerStart(
        tenants,
        withPlan,
      )
  return numbers
})
