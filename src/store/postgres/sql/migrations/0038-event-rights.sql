-- A role that may use the schema could attach these to a table of its own and write events.
REVOKE EXECUTE ON FUNCTION sluice.note_job(), sluice.note_flow() FROM PUBLIC;
