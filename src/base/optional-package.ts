/** Packages that people install beside Sluice, for the doors that need them. */
import { createRequire } from 'node:module'
import { SluiceError } from './errors.ts'

/** Loads a package at once, as the import of a door does. @throws {SluiceError} `package.missing` */
export function optionalPackage<T>(name: string, door: string): T {
  try {
    return createRequire(import.meta.url)(name) as T
  } catch (cause) {
    throw packageError(cause, door, name)
  }
}

/**
 * Turns the error of an import into the refusal that names the packages to install. A package that is there and fails
 * keeps its own error.
 */
export function packageError(cause: unknown, what: string, packages: string): unknown {
  const { code } = cause as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
    ? new SluiceError(
        'package.missing',
        `${what} needs a package that is not installed. Install it: npm install ${packages}.`,
        { cause },
      )
    : cause
}
