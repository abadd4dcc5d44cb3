-- A self-join: two orders of the same product by the same customer. Duplicates would count.
CREATE MATERIALIZED VIEW repeat_orders
WITH (consistency = 'strong', refresh_policy = 'auto') AS
SELECT c.name, a.product_id, a.id AS earlier, b.id AS later
FROM shop.orders a
JOIN shop.orders b ON b.customer_id = a.customer_id AND b.product_id = a.product_id AND a.id < b.id
JOIN crm.customers c ON c.id = a.customer_id;
