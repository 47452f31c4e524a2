/** How far a late scan has read a lane, and the sums of the jobs that it read; see `late-scan.ts`. */

/** The cost of a lane's scanned jobs in one of its buckets. */
export interface ScanShare {
  /** The bucket's last change when they were scanned. */
  readonly revision: number
  /** Its penalty then. */
  readonly closedUntilUs: number
  /** Jobs that cost units. */
  starts: number
  units: number
  /** The units of each job; 0: they differ. */
  weight: number
}

/**
 * States that all jobs of a lane up to the cursor can start in time, as far as its own buckets tell. It keeps sums, so
 * that a new job behind 100,000 others needs no read of them.
 */
export interface ScanCursor {
  /** The priority of the last scanned job. */
  priority: number
  seq: number
  /** Scanned jobs that still wait. */
  count: number
  /** A limit that reschedules refused these jobs, so they have reported start times. */
  readonly reserves: boolean
  /**
   * The highest priority given to one of them, even if it has left: jobs that may use the headroom leave less to the
   * others.
   */
  highest: number
  /** In the order of the lane's buckets. */
  readonly shares: readonly ScanShare[]
}

/** Whether a job at this place in its lane is still to be scanned. */
export function isBehind(
  cursor: Pick<ScanCursor, 'priority' | 'seq'>,
  job: { readonly priority: number; readonly seq: number },
): boolean {
  return job.priority < cursor.priority || (job.priority === cursor.priority && job.seq > cursor.seq)
}

/**
 * The cursor after one of its jobs has left, of which only the place is known. The job's units are known only if all
 * cost the same; otherwise null.
 */
export function removeFrom(cursor: ScanCursor): ScanCursor | null {
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

/** Reads the output of `encodeScanCursor`. */
export function decodeScanCursor(text: string): ScanCursor {
  const [priority = 0, seq = 0, count = 0, reserves = 0, highest = 0, ...rest] = JSON.parse(text) as number[]
  const shares: ScanShare[] = []
  for (let i = 0; i < rest.length; i += 5) {
    const [revision = 0, closedUntilUs = 0, starts = 0, units = 0, weight = 0] = rest.slice(i, i + 5)
    shares.push({ revision, closedUntilUs, starts, units, weight })
  }
  return { priority, seq, count, reserves: reserves === 1, highest, shares }
}
