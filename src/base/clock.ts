import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** A timer that was set and can be taken back. */
export interface Timer {
  /** Takes the timer back; after it has fired, does nothing. */
  cancel(): void
  /** Lets the process end while the timer is pending. */
  unref?(): void
}

/** Where all time comes from: the system's clocks, or a manual clock in tests. */
export interface Clock {
  /** The wall clock, in ms since 1970; may step in either direction. */
  now(): number
  /** A steady clock in whole µs, shared by all processes of one boot; its zero is arbitrary, it never steps. */
  monotonicUs(): number
  /** Names the boot within which `monotonicUs` of different processes can be compared. */
  readonly bootId: string
  /** Calls `run` once, never earlier than `delayMs` from now by the steady clock; ms, fractions allowed, any length. */
  setTimer(run: () => void, delayMs: number): Timer
  /** A manual clock stands still while something attached to it is busy; the system's clock has no use for it. */
  attach?(activity: Activity): () => void
}

/** Work that a manual clock waits for before it moves on. */
export interface Activity {
  /** Calls to the store that are on their way. */
  pending(): boolean
  /** Handlers that are running. */
  running(): number
}

// setTimeout beyond 2^31 - 1 ms (24.8 days) fires at once; an hour also bounds how long a suspended host misleads it.
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
}

let knownBootId: string | undefined

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1_000n)
}

/**
 * Where the system names no boot, every boot is called `boot`: a guess by uptime and wall clock would change with every
 * step of the wall clock. A reboot shows there only in the steady clock starting anew.
 */
function readBootId(): string {
  try {
    if (process.platform === 'linux') return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || 'boot'
    if (process.platform === 'darwin') {
      return execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim() || 'boot'
    }
  } catch {
    // A sandbox without /proc, or without leave to start processes, is the same case as a system that names no boot.
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
    // On a busy machine the time may have passed since it was computed, and Node warns of a negative one.
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

/** Whether a test has faked this process's timers, by what the fakes of vitest, jest and sinon carry. */
export function timersAreFaked(): boolean {
  return [setTimeout, setImmediate].some((each) => 'clock' in each || '_isMockFunction' in each)
}
