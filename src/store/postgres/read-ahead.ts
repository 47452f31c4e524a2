import { MOST_LANES, READ_AHEAD_AT_LEAST as AT_LEAST, type ReadAhead } from './context.ts'
import { type Depths, lineOf, type ListRead, type ReadPlan, type ReadSet } from './read-set.ts'

/** The number of lanes that a claim examines while many have nothing for the claimer. */
const STRANGE_LANES = 256
/** The most lanes beyond its slots that a claim examines after others that filled no slots with many. */
const EXTRA_AT_MOST = 256
/** The lanes of each group of a wait list that a claim reads first, and of each queue of one in order. */
const LINE = 4
const ORDERED_LINE = 16
/** At least so many lanes are read of a wait list that needs more than most: to read a short one whole costs little. */
const LINE_AT_LEAST = 64
/** The most lanes of a wait list that claims remember to need. */
const LINE_AT_MOST = 1024
/** A list that needs more is not read in one order. */
const IN_ORDER_AT_MOST = 4096
/** So many times the lanes that a claim needed are read by the next one. */
const LINE_SPARE = 1.25
/** The part of such a number that is left after a claim that needs fewer. */
const LINE_KEPT = 0.95
/** So many claims read a list in the same way, and then the server looks again at which one is shorter. */
const SAME_WAY_FOR = 64
/** Each claim sends all of them to the server. */
const LISTS_REMEMBERED = 256
/** Up to so many lanes of a list cost less than another read: all its groups are read as far as the deepest. */
const FEW_LANES = 4 * LINE_AT_LEAST
/** A list of which more groups need many lanes is read as far in all of them. */
const GROUPS_REMEMBERED = 64
const NO_GROUPS: ReadonlyMap<string, number> = new Map()
/** How a list is read of which nothing is remembered. */
const USUAL: ListRead = { line: LINE, groups: NO_GROUPS, inOrder: null, claims: 0 }
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
  const { lists, heads, openHeads, lanes, extra } = readAhead
  const usual = Math.min(extra + room, Math.max(FEW_PARKED + 2, 4 + Math.ceil(lanes * room)))
  return {
    open: parked > FEW_PARKED ? STRANGE_LANES + room : extra > AT_LEAST.extra ? extra + room : usual,
    due: room === 0 ? 0 : 16 + 2 * room,
    line: LINE,
    orderedLine: ORDERED_LINE,
    // Other claims of this process change what it remembers while this one runs.
    lists: new Map(lists),
    short: SHORT,
    heads,
    openHeads,
    slots: room,
    depth: 2,
    deepHeads: heads,
    deputiesApart: true,
    lanes: [],
    buckets: [],
    expectsUnlisted,
    skip: [],
  }
}

/** The part of its read set that a decision used. */
interface Used {
  readonly deepest: Depths
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
  plan: ReadPlan,
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
  readAhead.heads = Math.max(AT_LEAST.heads, used.mostHeads + 1, Math.ceil(readAhead.heads * 0.9))
  rememberLists(readAhead.lists, read, plan, used.deepest)
}

/**
 * A few lists need many lanes in claim after claim: those behind a deputy of theirs are passed over each time. A bucket
 * that closes behind another one makes one claim go through all lanes that need it, once.
 */
function rememberLists(
  lists: Map<number, ListRead>,
  { lined, inOrder, lineBuckets }: ReadSet,
  plan: ReadPlan,
  deepest: Depths,
): void {
  const ordered = new Set(inOrder)
  const read = new Map<number, number>()
  for (const bucket of lineBuckets) read.set(bucket, (read.get(bucket) ?? 0) + 1)
  for (const bucket of lined) {
    const planned = plan.lists.get(bucket) ?? USUAL
    const isOrdered = ordered.has(bucket)
    const depths = deepest.of(bucket)
    const missed = planned.line > (lists.get(bucket) ?? USUAL).line
    const apart = !isOrdered && (planned.groups.size > 0 || (read.get(bucket) ?? 0) > FEW_LANES)
    const { line, groups } = apart
      ? groupsNext(planned, missed, depths)
      : { line: lineNext(planned, missed, Math.max(0, ...depths.values()), isOrdered), groups: NO_GROUPS }
    const claims = planned.inOrder !== null ? planned.claims - 1 : isOrdered ? SAME_WAY_FOR : 0
    lists.delete(bucket)
    if (line > LINE || groups.size > 0 || claims > 0)
      lists.set(bucket, { line, groups, inOrder: claims > 0 ? (planned.inOrder ?? true) : null, claims })
  }
  for (const bucket of lists.keys()) {
    if (lists.size <= LISTS_REMEMBERED) break
    lists.delete(bucket)
  }
}

/** How many lanes of each group the next claim reads, or of the list in one order. */
function lineNext(planned: ListRead, missed: boolean, depth: number, isOrdered: boolean): number {
  const kept = missed ? Math.max(planned.line / 2, LINE_AT_LEAST) : fewer(planned.line)
  const needed = 2 * depth <= (isOrdered ? ORDERED_LINE : LINE) ? 0 : withSpare(depth)
  return Math.min(LINE_AT_MOST, Math.max(needed, kept))
}

/**
 * How many lanes of which group the next claim reads. Most of a long list may stand in one group that is passed over, so
 * each group has a number of its own while they are few.
 */
function groupsNext(
  planned: ListRead,
  missed: boolean,
  depths: ReadonlyMap<string | null, number>,
): Pick<ListRead, 'line' | 'groups'> {
  const line = missed ? 0 : Math.floor(planned.line * LINE_KEPT)
  const groups = new Map<string, number>()
  const needs = (group: string, lanes: number): void => {
    if (lanes > Math.max(LINE, line)) groups.set(group, Math.min(LINE_AT_MOST, Math.max(groups.get(group) ?? 0, lanes)))
  }
  for (const [group, lanes] of planned.groups) needs(group, fewer(lanes))
  for (const [group, depth] of depths) if (group !== null) needs(group, depth > LINE ? withSpare(depth) : 2 * depth)
  if (groups.size <= GROUPS_REMEMBERED) return { line, groups }
  return { line: Math.max(...groups.values()), groups: NO_GROUPS }
}

function withSpare(depth: number): number {
  return Math.max(LINE_AT_LEAST, Math.ceil(depth * LINE_SPARE))
}

/** The lanes to read of a list after a claim that needed fewer. */
function fewer(line: number): number {
  return Math.max(Math.floor(line * LINE_KEPT), Math.min(line - 1, LINE_AT_LEAST))
}

/**
 * The plan after a claim that needed more of a wait list. All others are read deeper too: each miss costs a read. So
 * are the other groups of the list, unless their numbers differ. A list that is read in one order changes to groups if
 * it must be read too far: of a group whose deputy closed, its first lane is enough.
 */
export function deeper(plan: ReadPlan, bucket: number, group: string | null): ReadPlan {
  const had = lineOf(plan, bucket, group)
  const line = Math.max(LINE_AT_LEAST, 4 * had)
  const known = plan.lists.get(bucket) ?? USUAL
  const list =
    group !== null
      ? known.groups.size === 0 || plan.line > LINE
        ? { ...known, line }
        : { ...known, groups: new Map([...known.groups, [group, line]]) }
      : had < IN_ORDER_AT_MOST
        ? { ...known, line: Math.min(line, IN_ORDER_AT_MOST) }
        : { ...USUAL, inOrder: false, claims: SAME_WAY_FOR }
  return {
    ...plan,
    line: 4 * plan.line,
    orderedLine: 4 * plan.orderedLine,
    lists: new Map([...plan.lists, [bucket, list]]),
  }
}
