// An engine that can fall silent at any moment, as a killed process does: no timer fires and no call is answered.
import type { Activity, Clock, Timer } from '../../../src/base/clock.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import type { ManualClock } from '../../../src/testing/manual-clock.ts'

/** Whether a process still lives. */
export interface Life {
  dead: boolean
}

/** The clock as a process sees it that may die. */
export class MortalClock implements Clock {
  readonly bootId: string
  readonly #clock: ManualClock
  readonly #life: Life

  constructor(clock: ManualClock, life: Life) {
    this.#clock = clock
    this.#life = life
    this.bootId = clock.bootId
  }

  now(): number {
    return this.#clock.now()
  }

  monotonicUs(): number {
    return this.#clock.monotonicUs()
  }

  setTimer(run: () => void, delayMs: number): Timer {
    return this.#clock.setTimer(() => {
      if (!this.#life.dead) run()
    }, delayMs)
  }

  attach(activity: Activity): () => void {
    const living = {
      pending: () => !this.#life.dead && activity.pending(),
      running: () => (this.#life.dead ? 0 : activity.running()),
    }
    return this.#clock.attach?.(living) ?? ((): void => undefined)
  }
}

/** A store whose answers never reach a process that has died. */
export function mortalStore(store: Store, life: Life): Store {
  return new Proxy(store, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        if (life.dead) return new Promise(() => undefined)
        const answer: unknown = Reflect.apply(value, target, args)
        return answer instanceof Promise ? heard(answer, life) : answer
      }
    },
  })
}

async function heard<T>(answer: Promise<T>, life: Life): Promise<T> {
  const [outcome] = await Promise.allSettled([answer])
  if (life.dead) await new Promise(() => undefined)
  if (outcome.status === 'rejected') throw outcome.reason
  return outcome.value
}
