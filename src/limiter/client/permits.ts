import type { Clock, Timer } from '../../base/clock.ts'
import type { HeldPermit } from '../contract/limiter.ts'

/** The leases of the permits that this limiter holds: a heartbeat extends all of them in one call. */
export class Permits {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #extend: (permits: readonly HeldPermit[]) => Promise<readonly HeldPermit[]>
  readonly #held = new Map<string, { readonly permit: HeldPermit; readonly lost: (reason?: Error) => void }>()
  #timer: Timer | null = null

  /** @param extend extends leases; it returns the permits whose leases had ended */
  constructor(
    clock: Clock,
    leaseUs: number,
    extend: (permits: readonly HeldPermit[]) => Promise<readonly HeldPermit[]>,
  ) {
    this.#clock = clock
    this.#everyMs = leaseUs / 3000
    this.#extend = extend
  }

  /** @param lost called if the lease ends all the same, as after a pause of this process, or for that reason */
  hold(permit: HeldPermit, lost: (reason?: Error) => void): void {
    this.#held.set(permit.id, { permit, lost })
    this.#timer ??= this.#beat()
  }

  /** False: it is not held any more. */
  drop({ id }: HeldPermit): boolean {
    const isHeld = this.#held.delete(id)
    if (this.#held.size === 0) this.#stop()
    return isHeld
  }

  /** Gives all permits up. @param reason told to those that hold them; null: they are not told */
  end(reason: Error | null): readonly HeldPermit[] {
    const held = [...this.#held.values()]
    this.#held.clear()
    this.#stop()
    if (reason) for (const { lost } of held) lost(reason)
    return held.map(({ permit }) => permit)
  }

  #stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #beat(): Timer {
    const timer = this.#clock.setTimer(() => void this.#extendAll(), this.#everyMs)
    timer.unref?.()
    return timer
  }

  async #extendAll(): Promise<void> {
    const permits = [...this.#held.values()].map(({ permit }) => permit)
    // While the backend cannot be reached, a lease may end; the next beat finds out.
    const ended = await this.#extend(permits).catch((): readonly HeldPermit[] => [])
    for (const { id } of ended) {
      const held = this.#held.get(id)
      if (held && this.#held.delete(id)) held.lost()
    }
    this.#timer = this.#held.size === 0 ? null : this.#beat()
  }
}
