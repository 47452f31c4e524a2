/** How far a lane has been scanned for jobs that come too late behind its closed buckets; see `scan.ts`. */

/** What the scanned jobs of a lane cost in one of its buckets. */
export interface ScanShare {
  /** The bucket's last change when they were scanned. */
  readonly revision: number
  /** Its penalty then. */
  readonly closedUntilUs: number
  /** Jobs that cost units. */
  starts: number
  units: number
  /** Units of each; 0: they differ. */
  weight: number
}

/**
 * All jobs of a lane up to the cursor can start in time, as far as its own buckets tell. Kept as sums, so that an arrival behind
 * 100,000 others is judged without looking at them.
 */
export interface ScanCursor {
  /** The last job that was scanned; those behind it were not yet. */
  priority: number
  seq: number
  /** Sifted jobs that still wait. */
  count: number
  /** They were told when they will start: a limit that reschedules refused them. */
  readonly reserves: boolean
  /** The highest priority that one of them was given, even if that one has left: who may use the headroom leaves less to the others. */
  highest: number
  /** In the order of the lane's buckets. */
  readonly shares: readonly ScanShare[]
}

/** Whether a job of this place in its lane has not been scanned yet. */
export function isBehind(
  cursor: Pick<ScanCursor, 'priority' | 'seq'>,
  job: { readonly priority: number; readonly seq: number },
): boolean {
  return job.priority < cursor.priority || (job.priority === cursor.priority && job.seq > cursor.seq)
}

/**
 * The scan cursor after one of its jobs has left, of which only the place is known; null where its units cannot be told.
 * Where all cost the same, they can.
 */
export function without(cursor: ScanCursor): ScanCursor | null {
  if (cursor.count <= 1 || cursor.shares.some(({ weight, starts }) => weight === 0 || starts !== cursor.count))
    return null
  const shares = cursor.shares.map((share) => ({
    ...share,
    starts: share.starts - 1,
    units: share.units - share.weight,
  }))
  return { ...cursor, count: cursor.count - 1, shares }
}

/** A scan cursor as compact text, a JSON array. */
export function encodeScanCursor({ priority, seq, count, reserves, highest, shares }: ScanCursor): string {
  const each = shares.map((share) => [share.revision, share.closedUntilUs, share.starts, share.units, share.weight])
  return JSON.stringify([priority, seq, count, reserves ? 1 : 0, highest, ...each.flat()])
}

/** Reads what `encodeSieve` wrote. */
export function decodeScanCursor(text: string): ScanCursor {
  const [priority = 0, seq = 0, count = 0, reserves = 0, highest = 0, ...rest] = JSON.parse(text) as number[]
  const shares: ScanShare[] = []
  for (let i = 0; i < rest.length; i += 5) {
    const [revision = 0, closedUntilUs = 0, starts = 0, units = 0, weight = 0] = rest.slice(i, i + 5)
    shares.push({ revision, closedUntilUs, starts, units, weight })
  }
  return { priority, seq, count, reserves: reserves === 1, highest, shares }
}
