import { timersAreFaked } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Store } from '../../store/contract/store.ts'

/** The place where an engine was made, and its store. It helps to find an engine that a failed test has left open. */
export class Place {
  readonly #store: string
  /** The same for engines that share a store. */
  readonly identity: unknown
  readonly #stack: string | undefined

  constructor(store: string | Store) {
    this.identity = typeof store === 'string' && store.includes(':memory:') ? this : store
    this.#store = typeof store === 'string' ? withoutSecrets(store) : `a ${store.backend} store`
    this.#stack = new Error('made').stack
  }

  /** As in `one on sqlite:./jobs.db (running), made at file:///app/worker.js:12:16`. */
  inWords(state: string): string {
    const frame = this.#stack?.split('\n').find((each, i) => i > 0 && !OWN_FRAME.test(each))
    const where =
      frame === undefined
        ? ''
        : `, made at ${frame
            .trim()
            .replace(/^at (?:.*\()?/, '')
            .replace(/\)$/, '')}`
    return `one on ${this.#store} (${state})${where}`
  }
}

const OWN_FRAME = /new (?:Place|Sluice)\b/

function withoutSecrets(url: string): string {
  return url.replace(/^(postgres(?:ql)?:\/\/)[^@/]*@/, '$1').replace(/\?.*$/, '')
}

/**
 * Refuses to start under timers that a test has faked, since no answer would ever arrive. Date alone may be faked.
 * @throws {SluiceError} `option.invalid`
 */
export function refuseFakedTimers(): void {
  if (!timersAreFaked()) return
  throw new SluiceError(
    'option.invalid',
    'The timers of this process are faked (vi.useFakeTimers or similar), so the engine would never finish waiting. Pass a clock made by createManualClock of sluice/testing instead, or fake Date only.',
  )
}
