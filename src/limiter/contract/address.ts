import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import { withoutPassword } from '../../base/text.ts'

/** The parts that may stand behind the host of each kind of address. A client would ignore all else. */
const BEHIND: Readonly<Record<string, RegExp>> = {
  redis: /^(?:\/\d{0,9})?$/,
  'redis+cluster': /^\/?0?(?:\?.*)?$/,
  'redis+sentinel': /^(?:\/[^?]*)?(?:\?.*)?$/,
  nats: /^\/?$/,
}

/** Whether a text is the address of a backend. */
export function isAddress(address: string): boolean {
  if (address === 'memory:') return true
  const [, scheme = ''] = /^([a-z+]+):\/\//.exec(address) ?? []
  const behind = BEHIND[scheme.replace(/^rediss/, 'redis')]
  if (!behind || !URL.canParse(address)) return false
  const { username, password, pathname, search, hash, hostname } = new URL(address)
  try {
    decodeURIComponent(username + password + pathname)
  } catch {
    return false
  }
  return hostname !== '' && hash === '' && behind.test(pathname + search)
}

/** Refuses a text that is not the address of a backend. @throws {SluiceError} `limiter.url.invalid` */
export function refuseAddress(address: string, more = ''): never {
  throw new SluiceError(
    'limiter.url.invalid',
    `The backend is invalid: ${quote(withoutPassword(address))}. Expected memory:, ${more}redis://host or redis://host/0, rediss://host, redis+cluster://host, redis+sentinel://host/name, nats://host, or a backend. Encode reserved characters of a password, as in %40 for @.`,
  )
}
