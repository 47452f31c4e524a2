// Simulates a fleet on more processors than this machine has: claimers of one queue of 1 to 64 stripes on PostgreSQL, by
// the times of one claim as bench/claimers.ts measures them with one claimer on a calm machine.
//
//   npx node bench/stripes-simulation.ts [--cores 8,16,32,64,128] [--stripes 1,2,4,8,16,32,64] [--jobs 100]
//       [--look 3] [--decide 1] [--write 3] [--settle 2] [--handle 3] [--trip 0.3] [--flush 0.5] [--spread 0.3]
//
// A claim takes a lock, reads (`look`, ms of a server's core), crosses the network (`trip`), decides (`decide`, ms of a
// client's core), crosses again, writes (`write`), waits for the log (`flush`, which commits share) and gives the lock
// back. Then its jobs run and are settled (`handle` on the client's core, `settle` on the server's). Times vary by `spread`
// around their means. Half of the cores are the server's, half the clients', one process each.
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    cores: { type: 'string', default: '8,16,32,64,128' },
    stripes: { type: 'string', default: '1,2,4,8,16,32,64' },
    jobs: { type: 'string', default: '100' },
    look: { type: 'string', default: '3' },
    decide: { type: 'string', default: '1' },
    write: { type: 'string', default: '3' },
    settle: { type: 'string', default: '2' },
    handle: { type: 'string', default: '3' },
    trip: { type: 'string', default: '0.3' },
    flush: { type: 'string', default: '0.5' },
    spread: { type: 'string', default: '0.3' },
  },
})
const [JOBS, LOOK, DECIDE, WRITE, SETTLE, HANDLE, TRIP, FLUSH, SPREAD] = [
  values.jobs,
  values.look,
  values.decide,
  values.write,
  values.settle,
  values.handle,
  values.trip,
  values.flush,
  values.spread,
].map(Number) as [number, number, number, number, number, number, number, number, number]
const LENGTH_MS = 5000
const WARM_MS = 500

/** Things to happen, in the order of their times. */
class Agenda {
  nowMs = 0
  readonly #heap: { readonly atMs: number; readonly run: () => void }[] = []

  after(delayMs: number, run: () => void): void {
    const heap = this.#heap
    let at = heap.push({ atMs: this.nowMs + delayMs, run }) - 1
    for (let up = (at - 1) >> 1; at > 0 && this.#at(at) < this.#at(up); at = up, up = (at - 1) >> 1) this.#swap(at, up)
  }

  runUntil(endMs: number): void {
    const heap = this.#heap
    while (heap.length > 0 && this.#at(0) <= endMs) {
      const [first] = heap
      const last = heap.pop()
      if (heap.length > 0 && last) {
        heap[0] = last
        for (let at = 0; ;) {
          const left = 2 * at + 1
          const least = left + 1 < heap.length && this.#at(left + 1) < this.#at(left) ? left + 1 : left
          if (least >= heap.length || this.#at(least) >= this.#at(at)) break
          this.#swap(at, least)
          at = least
        }
      }
      this.nowMs = first?.atMs ?? endMs
      first?.run()
    }
  }

  #at(index: number): number {
    return this.#heap[index]?.atMs ?? Infinity
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap
    ;[heap[a], heap[b]] = [heap[b] as (typeof heap)[0], heap[a] as (typeof heap)[0]]
  }
}

/** Several of one thing, handed out in the order of the requests: cores, or a lock. */
class Pool {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(size: number) {
    this.#free = size
  }

  get isFree(): boolean {
    return this.#free > 0
  }

  take(then: () => void): void {
    if (this.#free === 0) this.#waiting.push(then)
    else {
      this.#free--
      then()
    }
  }

  give(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}

/** The server's log: commits that wait while one is flushed share the next flush. */
class Log {
  readonly #agenda: Agenda
  #waiting: (() => void)[] = []
  #busy = false

  constructor(agenda: Agenda) {
    this.#agenda = agenda
  }

  commit(then: () => void): void {
    this.#waiting.push(then)
    if (!this.#busy) this.#flush()
  }

  #flush(): void {
    const together = this.#waiting
    this.#waiting = []
    this.#busy = together.length > 0
    if (!this.#busy) return
    this.#agenda.after(FLUSH, () => {
      for (const then of together) then()
      this.#flush()
    })
  }
}

/** Jobs per second of a queue with work in all stripes. */
function simulate(cores: number, stripes: number): number {
  let seed = 1
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647
  const agenda = new Agenda()
  const log = new Log(agenda)
  const server = new Pool(cores / 2)
  const locks = Array.from({ length: stripes }, () => new Pool(1))
  const around = (meanMs: number): number => meanMs * (1 + SPREAD * (2 * random() - 1))
  const on = (pool: Pool, meanMs: number, then: () => void): void =>
    pool.take(() =>
      agenda.after(around(meanMs), () => {
        pool.give()
        then()
      }),
    )
  let started = 0
  const work = (client: Pool, from: number): void => {
    const order = locks.map((_, n) => (from + n) % stripes)
    const stripe = order.find((n) => locks[n]?.isFree) ?? from % stripes
    const lock = locks[stripe] as Pool
    lock.take(() =>
      on(server, LOOK, () =>
        agenda.after(TRIP, () =>
          on(client, DECIDE, () =>
            agenda.after(TRIP, () =>
              on(server, WRITE, () =>
                log.commit(() => {
                  lock.give()
                  if (agenda.nowMs > WARM_MS) started += JOBS
                  on(client, HANDLE, () => on(server, SETTLE, () => log.commit(() => work(client, stripe + 1))))
                }),
              ),
            ),
          ),
        ),
      ),
    )
  }
  for (let n = 0; n < cores / 2; n++) agenda.after(random() * 10, () => work(new Pool(1), n))
  agenda.runUntil(LENGTH_MS + WARM_MS)
  return started / (LENGTH_MS / 1000)
}

const holdMs = LOOK + DECIDE + WRITE + 2 * TRIP + FLUSH
console.log(
  `A claim of ${JOBS} jobs holds its lock for ${holdMs.toFixed(1)} ms: at most ${Math.round((JOBS / holdMs) * 1000).toLocaleString('en')} jobs/s a stripe.\n`,
)
const allCores = values.cores.split(',').map(Number)
console.log(`| stripes | ${allCores.map((cores) => `${cores} cores`).join(' | ')} |`)
console.log(`| ---: | ${allCores.map(() => '---:').join(' | ')} |`)
for (const stripes of values.stripes.split(',').map(Number)) {
  const cells = allCores.map((cores) => Math.round(simulate(cores, stripes)).toLocaleString('en'))
  console.log(`| ${stripes} | ${cells.join(' | ')} |`)
}
