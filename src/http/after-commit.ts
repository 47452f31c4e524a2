import type { Logger } from '../base/logger.ts'

/**
 * Reads details for an answer about work that is already stored. If the read fails, the answer says less. An error
 * would make the client store the work twice.
 * @param otherwise the answer's details after a failed read
 */
export async function afterCommit<T>(
  logger: Logger,
  requestId: string,
  read: () => Promise<T>,
  otherwise: () => T,
): Promise<T> {
  try {
    return await read()
  } catch (error) {
    logger.warn({ err: error, requestId }, 'the stored work could not be read back, so the answer omits its details')
    return otherwise()
  }
}
