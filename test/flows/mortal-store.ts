import { createStore } from '../../src/store/open.ts'
import type { Clock } from '../../src/base/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'

/** The point at which the process of a store dies: around a call that fits. */
export interface Death {
  readonly when: 'before' | 'after'
  readonly call: 'settle' | 'claim' | 'enterFlow' | 'any'
  /** Whether it is this call, by its arguments and, when it was made, by its answer. */
  readonly fits: (args: readonly unknown[], answer: unknown) => boolean
}

/** A store whose process dies once: from then on nothing that it calls is done. */
export async function mortalStore(
  url: string,
  clock: Clock,
  death: Death,
): Promise<{ readonly store: Store; readonly isDead: () => boolean; readonly kill: () => void }> {
  const hour = 3_600_000_000
  const retention = { completedUs: hour, cancelledUs: hour, discardedUs: hour }
  const real = await createStore(url, { clock, durability: 'process', retention })
  let dead = false
  const die = (): never => {
    dead = true
    throw Object.assign(new Error('the process is dead'), { code: 'store.io' })
  }
  const store = new Proxy(real, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (['close', 'nowUs', 'watch'].includes(String(name))) return (value as () => unknown).bind(target)
      return async (...args: readonly unknown[]) => {
        if (dead) die()
        const isPoint = death.call === 'any' || name === death.call
        if (isPoint && death.when === 'before' && death.fits(args, null)) die()
        const answer: unknown = await Reflect.apply(value, target, args)
        if (dead) die()
        if (isPoint && death.when === 'after' && death.fits(args, answer)) die()
        return answer
      }
    },
  })
  return { store, isDead: () => dead, kill: () => void (dead = true) }
}
