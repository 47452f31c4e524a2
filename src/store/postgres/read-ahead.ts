import { MOST_LANES, READ_AHEAD_AT_LEAST as AT_LEAST, type ReadAhead } from './context.ts'
import type { ReadPlan, ReadSet } from './read-set.ts'

/** The number of lanes that a claim examines while many have nothing for the claimer. */
const STRANGE_LANES = 256
/** The most lanes beyond its slots that a claim examines after others that filled no slots with many. */
const EXTRA_AT_MOST = 256
/** The most lanes of a wait list that one deep claim makes the next ones read. */
const LINE_REMEMBERED = 64
/** The lanes of a wait list that is read whole, if they are of many groups. */
const SHORT = 1000
/** A claim that parks more lanes expects many more of them. */
export const FEW_PARKED = 8

/** A process remembers this of its last claims. */
interface Remembered {
  readonly readAhead: ReadAhead
  readonly expectsUnlisted: boolean
  readonly parked: number
}

/** The plan of a claim's first read. @param room the free slots of all queues */
export function planFor(room: number, { readAhead, expectsUnlisted, parked }: Remembered): ReadPlan {
  const { line, heads, openHeads, lanes, extra } = readAhead
  const usual = Math.min(extra + room, Math.max(FEW_PARKED + 2, 4 + Math.ceil(lanes * room)))
  return {
    open: parked > FEW_PARKED ? STRANGE_LANES + room : extra > AT_LEAST.extra ? extra + room : usual,
    due: room === 0 ? 0 : 16 + 2 * room,
    line,
    short: SHORT,
    heads,
    openHeads,
    slots: room,
    depth: 2,
    deepHeads: heads,
    lanes: [],
    buckets: [],
    expectsUnlisted,
    skip: [],
  }
}

/** The part of its read set that a decision used. */
interface Used {
  readonly deepest: number
  readonly mostHeads: number
  readonly mostOpenHeads: number
  readonly lanes: ReadonlyMap<number, { readonly changed: boolean }>
}

/** The outcome of a decision. */
interface Outcome {
  readonly starts: number
  /** Slots are left, and lanes that it did not read. */
  readonly more: boolean
  /** It asked for jobs that the first read lacked. */
  readonly missed: boolean
}

/** Remembers what a decision used, for the next claim of this process. */
export function rememberReads(
  readAhead: ReadAhead,
  read: ReadSet,
  used: Used,
  { starts, more, missed }: Outcome,
): void {
  // A lane that changed was examined.
  const examined = read.open.filter((id) => used.lanes.get(id)?.changed).length
  readAhead.extra = more ? Math.min(EXTRA_AT_MOST, 2 * readAhead.extra) : AT_LEAST.extra
  if (more) readAhead.lanes = MOST_LANES
  else if (starts > 0) readAhead.lanes = Math.max(examined / starts, readAhead.lanes * 0.9)
  // Lanes with more starts than their turns promised: few jobs waited before them.
  const most = used.mostOpenHeads + 1
  readAhead.openHeads = Math.max(
    AT_LEAST.openHeads,
    missed ? most : Math.min(readAhead.openHeads, most),
    Math.floor(readAhead.openHeads * 0.9),
  )
  // A bucket that closes behind another one makes one claim go through all lanes that need it, once.
  const deepest = Math.min(used.deepest, LINE_REMEMBERED)
  readAhead.line = Math.max(AT_LEAST.line, deepest + 2, Math.ceil(readAhead.line * 0.9))
  readAhead.heads = Math.max(AT_LEAST.heads, used.mostHeads + 1, Math.ceil(readAhead.heads * 0.9))
}
