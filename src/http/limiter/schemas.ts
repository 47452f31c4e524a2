import { z } from 'zod'
import { isName, LONGEST_NAME } from '../../base/text.ts'
import { strict } from '../flows/schemas.ts'
import { Priority } from '../priority.ts'

const MOST_USES = 20
const MOST_REQUESTS = 100
const MOST_PERMITS = 1000
const MOST_UNITS = 1_000_000_000
const YEAR_MS = 31_536_000_000
/** As with a fetch: a proxy on the way may end a longer request. */
const LONGEST_WAIT_MS = 30_000
const LEASE_MS = 30_000
const SHORTEST_LEASE_MS = 300
const LONGEST_LEASE_MS = 3_600_000

const Text = z.string().refine((text) => isName(text), `Invalid input: expected 1 to ${LONGEST_NAME} characters`)
/** A key of up to a mebibyte: long ones are kept by their hash. */
const Key = z.union([z.string().min(1).max(1_048_576), z.number()])
const Lease = z.int().min(SHORTEST_LEASE_MS).max(LONGEST_LEASE_MS).default(LEASE_MS)

const Uses = z
  .array(strict({ limit: Text, key: Key.optional(), weight: z.int().min(1).max(MOST_UNITS).optional() }))
  .min(1)
  .max(MOST_USES)

/** The buckets that a request takes from. */
export type UsesJson = readonly { limit: string; key?: string | number | undefined; weight?: number | undefined }[]

/** A permit as it was answered. */
export interface PermitJson {
  id: string
  limits: readonly { limit: string; key?: string | null | undefined }[]
}

const Permits = z
  .array(
    strict({
      id: Text,
      limits: z.array(strict({ limit: Text, key: z.string().max(1024).nullish() })).max(MOST_USES),
    }),
  )
  .max(MOST_PERMITS)

/** Requests for units, each granted whole or not at all. */
export const Acquire: z.ZodType<{
  requests: readonly { uses: UsesJson; priority: number }[]
  wait_ms: number
  lease_ms: number
}> = strict({
  requests: z
    .array(strict({ uses: Uses, priority: Priority.default(0) }))
    .min(1)
    .max(MOST_REQUESTS),
  wait_ms: z.int().min(0).max(LONGEST_WAIT_MS).default(0),
  lease_ms: Lease,
}).refine(({ requests, wait_ms: waitMs }) => waitMs === 0 || requests.length === 1, {
  message: 'Invalid input: expected one request with wait_ms',
  path: ['wait_ms'],
})

/** A request for the next start. */
export const Reserve: z.ZodType<{ uses: UsesJson; priority: number; at_most_ms: number; lease_ms: number }> = strict({
  uses: Uses,
  priority: Priority.default(0),
  at_most_ms: z.int().min(0).max(YEAR_MS),
  lease_ms: Lease,
})

/** The reservation to confirm. */
export const Confirm: z.ZodType<{ id: string }> = strict({ id: Text })

/** Permits that return, and reservations that are given back. */
export const Release: z.ZodType<{ permits: readonly PermitJson[]; reservations: readonly string[] }> = strict({
  permits: Permits.default([]),
  reservations: z.array(Text).max(MOST_REQUESTS).default([]),
})

/** Permits whose leases are extended. */
export const Extend: z.ZodType<{ permits: readonly PermitJson[]; lease_ms: number }> = strict({
  permits: Permits,
  lease_ms: Lease,
})

const Bucket = { limit: Text, key: Key.optional() }

/** A correction of what a start cost. */
export const Charge: z.ZodType<{
  limit: string
  key?: string | number | undefined
  units: number
  granted_at_us?: number | undefined
}> = strict({
  ...Bucket,
  units: z.int().min(-MOST_UNITS).max(MOST_UNITS),
  granted_at_us: z.int().min(0).optional(),
}).refine(({ units, granted_at_us: atUs }) => units >= 0 || atUs !== undefined, {
  message: 'Invalid input: expected the granted_at_us of the start whose units return',
  path: ['granted_at_us'],
})

/** A refusal of the API. */
export const Penalize: z.ZodType<{ limit: string; key?: string | number | undefined; for_ms: number }> = strict({
  ...Bucket,
  for_ms: z.int().min(1).max(3_600_000),
})

/** Parameters of a path that names a limit. */
export const LimitParams: z.ZodType<{ limit: string }> = z.object({ limit: Text })

/** The bucket of a limit. */
export const LimitQuery: z.ZodType<{ key?: string | undefined }> = z.object({
  key: z.string().min(1).max(1024).optional(),
})
