import { SluiceError } from '../../base/errors.ts'
import { withoutPassword } from '../../base/text.ts'

/** Whether a text is the address of a backend. */
export function isAddress(address: string): boolean {
  return (
    address === 'memory:' || (/^(?:rediss?(?:\+cluster|\+sentinel)?|nats):\/\//.test(address) && URL.canParse(address))
  )
}

/** Refuses a text that is not the address of a backend. @throws {SluiceError} `limiter.url.invalid` */
export function refuseAddress(address: string): never {
  throw new SluiceError(
    'limiter.url.invalid',
    `The backend is invalid: ${JSON.stringify(withoutPassword(address))}. Expected memory:, redis://host, rediss://host, redis+cluster://host, redis+sentinel://host/name, nats://host, or a backend.`,
  )
}
