// A server's clock that goes back, as after a failover: what was written before it did moves along, what came after does not.
import { beforeEach, expect, test } from 'vitest'
import { job } from './plain-job.ts'
import { withPostgres } from './postgres-server.ts'
import { eachWatchedStore } from './postgres-watched.ts'

const SECOND_US = 1_000_000
const HOUR_US = 3600 * SECOND_US
const LEASE_US = 30 * SECOND_US

withPostgres("a step back of PostgreSQL's clock", () => {
  const watched = eachWatchedStore('clock_step')

  /** A stored time, in µs from the server's present. */
  async function fromNow(sql: string): Promise<number> {
    const { rows } = await watched().sql(`SELECT (${sql}) - now_us() AS us`)
    return Number((rows[0] as { us: string }).us)
  }
  /** As if the clock had been an hour ahead a moment ago. */
  const stepBack = () => watched().sql(`UPDATE store SET value = now_us() + ${HOUR_US} WHERE name = 'clock'`)
  let worker: number
  const started = async (leaseUs: number, remote = false): Promise<number> => {
    await watched().store.enqueue([job('work')])
    const claim = await watched().store.claim(() => ({ worker, leaseUs, queues: [{ queue: 'q', slots: 1 }], remote }))
    return claim.jobs[0]?.seq ?? 0
  }

  beforeEach(async () => {
    worker = await watched().store.join(['q'], LEASE_US)
  })

  test('loses no run that began after it, nor its worker', async () => {
    const seq = await started(LEASE_US)
    await stepBack()
    expect(await watched().store.recover()).toEqual([])
    expect(await watched().store.heartbeat(worker, [{ seq, attempt: 1 }], LEASE_US)).toMatchObject({ lost: [] })
  })

  test('loses no run of a longer lease that began after it', async () => {
    const seq = await started(HOUR_US / 2, true)
    await stepBack()
    expect(await watched().store.recover()).toEqual([])
    expect(await fromNow(`SELECT due FROM jobs WHERE seq = ${seq}`)).toBeGreaterThan(HOUR_US / 3)
  })

  test('ends the lease of a run that began before it in time', async () => {
    const seq = await started(HOUR_US + 100 * SECOND_US)
    await watched().sql(`UPDATE jobs SET since = since + ${HOUR_US}, started = started + ${HOUR_US}`)
    await watched().sql(`UPDATE workers SET alive_until = alive_until + ${HOUR_US}`)
    await stepBack()
    expect(await watched().store.recover()).toEqual([])
    expect(await fromNow(`SELECT due FROM jobs WHERE seq = ${seq}`)).toBeLessThan(101 * SECOND_US)
    expect(await fromNow('SELECT alive_until FROM workers')).toBeLessThan(61 * SECOND_US)
  })

  test('leaves the latest start of a job that came after it, and moves that of one that came before', async () => {
    const [before, after] = [job('before'), job('after')]
    await watched().store.enqueue([before, after])
    await watched().sql(`UPDATE jobs SET due = now_us() + 10 * ${SECOND_US}`)
    await watched().sql(`UPDATE jobs SET due = due + ${HOUR_US}, since = since + ${HOUR_US} WHERE id = '${before.id}'`)
    await stepBack()
    await watched().store.recover()
    for (const { id } of [before, after]) {
      const us = await fromNow(`SELECT due FROM jobs WHERE id = '${id}'`)
      expect(us).toBeGreaterThan(0)
      expect(us).toBeLessThan(11 * SECOND_US)
    }
  })
})
