/** How far a lane has been sifted for jobs that come too late behind its closed buckets; see `sift.ts`. */

/** What the sifted jobs of a lane cost in one of its buckets. */
export interface SieveShare {
  /** The bucket's last change when they were sifted. */
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
export interface Sieve {
  /** The last job that was sifted; those behind it were not yet. */
  priority: number
  seq: number
  /** Sifted jobs that still wait. */
  count: number
  /** They were told when they will start: a limit that reschedules refused them. */
  readonly books: boolean
  /** The highest priority that one of them was given, even if that one has left: who may use the headroom leaves less to the others. */
  highest: number
  /** In the order of the lane's buckets. */
  readonly shares: readonly SieveShare[]
}

/** Whether a job of this place in its lane has not been sifted yet. */
export function isBehind(
  sieve: Pick<Sieve, 'priority' | 'seq'>,
  job: { readonly priority: number; readonly seq: number },
): boolean {
  return job.priority < sieve.priority || (job.priority === sieve.priority && job.seq > sieve.seq)
}

/**
 * The sieve after one of its jobs has left, of which only the place is known; null where its units cannot be told.
 * Where all cost the same, they can.
 */
export function without(sieve: Sieve): Sieve | null {
  if (sieve.count <= 1 || sieve.shares.some(({ weight, starts }) => weight === 0 || starts !== sieve.count)) return null
  const shares = sieve.shares.map((share) => ({
    ...share,
    starts: share.starts - 1,
    units: share.units - share.weight,
  }))
  return { ...sieve, count: sieve.count - 1, shares }
}

/** A sieve as compact text, a JSON array. */
export function encodeSieve({ priority, seq, count, books, highest, shares }: Sieve): string {
  const each = shares.map((share) => [share.revision, share.closedUntilUs, share.starts, share.units, share.weight])
  return JSON.stringify([priority, seq, count, books ? 1 : 0, highest, ...each.flat()])
}

/** Reads what `encodeSieve` wrote. */
export function decodeSieve(text: string): Sieve {
  const [priority = 0, seq = 0, count = 0, books = 0, highest = 0, ...rest] = JSON.parse(text) as number[]
  const shares: SieveShare[] = []
  for (let i = 0; i < rest.length; i += 5) {
    const [revision = 0, closedUntilUs = 0, starts = 0, units = 0, weight = 0] = rest.slice(i, i + 5)
    shares.push({ revision, closedUntilUs, starts, units, weight })
  }
  return { priority, seq, count, books: books === 1, highest, shares }
}
