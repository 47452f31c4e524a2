import { storedBucket, storedId } from '../budgets.ts'
import type { HeldPermit } from '../../limiter/contract/limiter.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { splitName } from '../tenant.ts'
import { Charge, Extend, Penalize, type PermitJson, Release } from './schemas.ts'

/** Returns permits, and gives reservations back. */
export const release: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/release',
  name: 'releasePermits',
  summary: 'Return permits, and give reservations back. Those that are gone are ignored.',
  body: Release,
  answers: { 200: 'They have returned; cancelled: the reservations that were given back.' },
  async run(call) {
    const { permits, reservations } = call.body
    const held = heldOf(call, permits)
    const cancelled = await call.server.budgets.call(async (backend) => {
      if (held.length > 0) await backend.release(held)
      const ended: string[] = []
      for (const shown of reservations) {
        const id = storedId(call.tenant, shown)
        if (id !== null && (await backend.cancel(id))) ended.push(shown)
      }
      return ended
    })
    return ok({ cancelled })
  },
})

/** Extends leases. */
export const extend: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/extend',
  name: 'extendPermits',
  summary: 'Extend the leases of permits. Send it about three times in a lease, as a heartbeat.',
  body: Extend,
  answers: { 200: 'The ids of permits whose leases had ended.' },
  async run(call) {
    const held = heldOf(call, call.body.permits)
    const leaseUs = call.body.lease_ms * 1000
    const ended = await call.server.budgets.call((backend) => backend.extend(held, leaseUs))
    const known = new Set(held.map(({ id }) => splitName(id).name))
    const unknown = call.body.permits.filter(({ id }) => !known.has(id))
    return ok({ ended: [...ended.map(({ id }) => splitName(id).name), ...unknown.map(({ id }) => id)] })
  },
})

/** Corrects a cost. */
export const charge: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/charge',
  name: 'chargeUnits',
  summary: 'Correct what a start cost: positive units are taken too, negative ones return.',
  body: Charge,
  answers: { 200: 'It is corrected.' },
  async run({ body, server, tenant }) {
    await server.budgets.charge(tenant, body, body.units, body.granted_at_us ?? 0)
    return ok({})
  },
})

/** Closes a bucket. */
export const penalize: Operation = operation({
  method: 'POST',
  path: '/limiter/v1/penalize',
  name: 'penalizeBucket',
  summary: 'Close a bucket after a refusal of the API, for so long.',
  body: Penalize,
  answers: { 200: 'changed: whether that is news, or the bucket was closed for as long already.' },
  async run({ body, server, tenant }) {
    const bucket = server.budgets.bucket(tenant, body)
    await server.budgets.ensure(tenant, bucket)
    const changed = await server.budgets.call((backend) => backend.penalize(bucket, body.for_ms * 1000))
    return ok({ changed })
  },
})

function heldOf({ server, tenant }: Call<unknown, unknown, unknown>, permits: readonly PermitJson[]): HeldPermit[] {
  return permits.flatMap(({ id: shown, limits }) => {
    const id = storedId(tenant, shown)
    return id === null ? [] : [{ id, of: limits.map((each) => storedBucket(server.limits, tenant, each)) }]
  })
}
