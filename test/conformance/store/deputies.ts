import { expect, test } from 'vitest'
import type { NewJob } from '../../../src/jobs/job.ts'
import type { StoreHarness } from './harness.ts'
import { World } from './world.ts'

const KINDS = {
  'a global limit and one per tenant': (tenant: number) => ['g', `t:${tenant}`],
  'a global limit, one per plan and one per tenant': (tenant: number) => ['g', `p:${tenant % 5}`, `t:${tenant}`],
} as const
const JOBS_PER_LANE = 3

/** What a claim costs where limits that many lanes share are near their bounds. */
export function deputies(harness: StoreHarness): void {
  test.each(Object.entries(KINDS))(
    '%s: few lanes are looked at per start, as many with 1,600 lanes as with 50',
    async (_name, limitsOf) => {
      const few = await drainAnew(harness, 50, limitsOf)
      const many = await drainAnew(harness, 400, limitsOf)
      const most = await drainAnew(harness, 1600, limitsOf)
      const allowed = 2 + 2 * limitsOf(0).length
      for (const looks of [few, many, most]) expect(looks).toBeLessThanOrEqual(allowed)
      expect(most).toBeLessThanOrEqual(1.2 * few)
    },
    60_000,
  )
}

async function drainAnew(
  harness: StoreHarness,
  tenants: number,
  limitsOf: (tenant: number) => readonly string[],
): Promise<number> {
  const world = await World.open(harness)
  try {
    return await drain(world, tenants, limitsOf)
  } finally {
    await world.store.close()
  }
}

/** Drains the lanes of so many tenants, each claim at the instant that the last one named; answers lanes looked at per start. */
async function drain(w: World, tenants: number, limitsOf: (tenant: number) => readonly string[]): Promise<number> {
  await w.define({
    g: { rate: 1, per: '10ms', burst: 5 },
    p: { rate: 1, per: '40ms', burst: 3 },
    t: { rate: 1, per: tenants * 5, burst: 1 },
  })
  const jobs: NewJob[] = []
  for (let tenant = 0; tenant < tenants; tenant++)
    for (let i = 0; i < JOBS_PER_LANE; i++) jobs.push(w.job(`t${tenant}`, { limits: limitsOf(tenant) }))
  await w.store.enqueue(jobs)
  let looks = 0
  let started = 0
  while (started < jobs.length) {
    const claim = await w.claim({ slots: 1_000_000 })
    looks += claim.looks
    started += claim.jobs.length
    const next = w.ms(claim.nextWakeUs)
    if (next === null) break
    w.at(next)
  }
  expect(started).toBe(jobs.length)
  return looks / started
}
