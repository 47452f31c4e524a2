import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import process from 'node:process'

/** A timer that was set and can be taken back. */
export interface Timer {
  /** Cancels the timer; no effect once it has fired. */
  cancel(): void
  /** Lets the process end while the timer is pending. */
  unref?(): void
}

/** The source of all time: the system's clocks, or a manual clock in tests. */
export interface Clock {
  /** The wall clock, in ms since 1970. It may step in either direction. */
  now(): number
  /** A steady clock in whole µs that never steps. All processes of one boot share it; its zero is arbitrary. */
  monotonicUs(): number
  /** Names the boot within which `monotonicUs` of different processes can be compared. */
  readonly bootId: string
  /** Calls `run` once, after `delayMs` ms of the steady clock or later. Fractions and any length are allowed. */
  setTimer(run: () => void, delayMs: number): Timer
  /**
   * The same to a fraction of a millisecond. It keeps the event loop busy for the last 0.2 ms, and for all of a delay
   * below about 1 ms. Absent: `setTimer` is as exact.
   */
  setFineTimer?(run: () => void, delayMs: number): Timer
  /** Registers work that a manual clock waits for before it advances. The system's clock has no such method. */
  attach?(activity: Activity): () => void
  /** Workflows are entered again after every step, as after a crash. Only test clocks have it. */
  readonly enterAlways?: boolean
}

/** Work that a manual clock waits for before it advances. */
export interface Activity {
  /** Whether a store call is in flight. */
  pending(): boolean
  /** The number of handlers that are running. */
  running(): number
}

// setTimeout beyond 2^31 - 1 ms (24.8 days) fires at once. An hour also bounds the delay after a suspended host
// resumes.
const LONGEST_PIECE_MS = 3_600_000

/** The clocks of this machine: the system's wall clock, and the host's monotonic clock since boot. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicUs,
  get bootId(): string {
    knownBootId ??= readBootId()
    return knownBootId
  },
  setTimer: (run, delayMs) => new PiecedTimer(run, delayMs),
  setFineTimer: (run, delayMs) => new FineTimer(run, delayMs),
}

/** The last part of a fine delay, which turns of the event loop fill. */
const SPUN_US = 200

let knownBootId: string | undefined

function monotonicUs(): number {
  // Every decision reads it: without BigInt it takes a fifth less time, and is as exact.
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000_000 + Math.floor(nanoseconds / 1_000)
}

/**
 * The id of this boot, or `boot` where the system has none. A guess from uptime and wall clock would change with every
 * step of the wall clock. On such a system only the steady clock's restart shows a reboot.
 */
function readBootId(): string {
  try {
    if (process.platform === 'linux') return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || 'boot'
    if (process.platform === 'darwin') {
      return execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim() || 'boot'
    }
  } catch {
    // A sandbox may lack /proc, or forbid child processes: the same as a system without a boot id.
  }
  return 'boot'
}

class PiecedTimer implements Timer {
  readonly #run: () => void
  readonly #dueUs: number
  #handle: NodeJS.Timeout
  #referenced = true

  constructor(run: () => void, delayMs: number) {
    this.#run = run
    this.#dueUs = monotonicUs() + Math.ceil(Math.max(0, delayMs) * 1_000)
    this.#handle = this.#arm()
  }

  cancel(): void {
    clearTimeout(this.#handle)
  }

  unref(): void {
    this.#referenced = false
    this.#handle.unref()
  }

  #arm(): NodeJS.Timeout {
    const remainingMs = Math.ceil((this.#dueUs - monotonicUs()) / 1_000)
    // On a busy machine the due time may already have passed, and Node warns of a negative delay.
    const handle = setTimeout(() => this.#wake(), Math.max(0, Math.min(remainingMs, LONGEST_PIECE_MS)))
    if (!this.#referenced) handle.unref()
    return handle
  }

  #wake(): void {
    // setTimeout counts from a cached, rounded time and may fire a fraction of a millisecond early.
    if (monotonicUs() < this.#dueUs) this.#handle = this.#arm()
    else this.#run()
  }
}

/** A timeout of whole milliseconds, then turns of the event loop. */
class FineTimer implements Timer {
  readonly #run: () => void
  readonly #dueUs: number
  #timeout: NodeJS.Timeout | null = null
  #turn: NodeJS.Immediate | null = null

  constructor(run: () => void, delayMs: number) {
    this.#run = run
    this.#dueUs = monotonicUs() + Math.ceil(Math.max(0, delayMs) * 1_000)
    this.#arm()
  }

  cancel(): void {
    if (this.#timeout) clearTimeout(this.#timeout)
    if (this.#turn) clearImmediate(this.#turn)
  }

  #arm(): void {
    const leftUs = this.#dueUs - monotonicUs()
    const wholeMs = Math.floor((leftUs - SPUN_US) / 1_000)
    if (leftUs <= 0) this.#turn = setImmediate(() => this.#run())
    else if (wholeMs < 1) this.#turn = setImmediate(() => this.#wake())
    else this.#timeout = setTimeout(() => this.#wake(), Math.min(wholeMs, LONGEST_PIECE_MS))
  }

  #wake(): void {
    if (monotonicUs() < this.#dueUs) this.#arm()
    else this.#run()
  }
}

/** Whether a test has faked this process's timers. The fakes of vitest, jest and sinon leave marks on setTimeout. */
export function timersAreFaked(): boolean {
  return [setTimeout, setImmediate].some((each) => 'clock' in each || '_isMockFunction' in each)
}
