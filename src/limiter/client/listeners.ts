/** Those who listen to a limiter. */
import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import type { LimiterEvents } from './calls.ts'

const EVENTS: Readonly<Record<keyof LimiterEvents, true>> = {
  'rate_limit.backend_down': true,
  'rate_limit.backend_up': true,
  'rate_limit.backend_reset': true,
  'rate_limit.dynamic_adjusted': true,
}

type Listener = (payload: unknown) => unknown

/** The listeners of one limiter. What one of them throws reaches no call: it is written to stderr. */
export class Listeners {
  readonly #listeners = new Map<string, Set<Listener>>()

  /** Listens to an event. It returns a function that ends that. @throws {SluiceError} `option.invalid` */
  on<E extends keyof LimiterEvents>(event: E, listener: (payload: LimiterEvents[E]) => void): () => void {
    if (typeof event !== 'string' || !Object.hasOwn(EVENTS, event))
      throw new SluiceError(
        'option.invalid',
        `A limiter has no event ${show(event)}. Expected ${Object.keys(EVENTS).join(', ')}.`,
      )
    if (typeof listener !== 'function')
      throw new SluiceError(
        'option.invalid',
        `The listener of ${event} is invalid: ${show(listener)}. Expected a function.`,
      )
    const listeners = this.#listeners.get(event) ?? new Set()
    // One function may listen twice.
    const own: Listener = (payload) => listener(payload as LimiterEvents[E])
    this.#listeners.set(event, listeners.add(own))
    return () => void listeners.delete(own)
  }

  emit<E extends keyof LimiterEvents>(event: E, payload: LimiterEvents[E]): void {
    const threw = async (err: unknown): Promise<void> => {
      const { consoleLogger } = await import('../../base/logger.ts')
      consoleLogger.error({ err }, `a listener of ${event} threw`)
    }
    for (const listener of this.#listeners.get(event) ?? []) {
      try {
        // It may be an async function, whose rejection would end the process.
        const returned = listener(payload)
        if (returned instanceof Promise) returned.catch(threw)
      } catch (error) {
        void threw(error)
      }
    }
  }
}
