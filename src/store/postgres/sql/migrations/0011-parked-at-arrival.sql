-- Lanes of jobs that no worker lists are parked where they arrive.
DROP FUNCTION IF EXISTS sluice.take_arrivals(text[], bigint);
